"""A game as both sides play it."""

import pytest

import purerl
from purerl.envs.classic.cartpole import CartPole
from purerl.extensions.self_play.sides import both_sides
from purerl.wrappers import TimeLimit


@pytest.mark.long
def test_a_game_in_a_wrapper_is_played_from_both_sides():
    pytest.importorskip("pgx", reason="pgx is not installed: pip install 'purerl[pgx]'")
    inside = purerl.make("pgx/tic_tac_toe")
    both = both_sides(TimeLimit(inside, time_limit=20))
    assert isinstance(both, TimeLimit) and both.env == inside.for_self_play() == both_sides(inside)


@pytest.mark.long
def test_other_environments_stay_as_they_are():
    plain = TimeLimit(CartPole(), time_limit=20)
    assert both_sides(plain) is plain and both_sides(plain.env) is plain.env
