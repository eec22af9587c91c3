"""Small games are solved: Nim by its theory, tic-tac-toe by what is known of it and by a search by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.extensions.self_play import match
from purerl.extensions.self_play.solver import perfect, solve
from purerl.wrappers import Situations
from tests.helpers.nim import Nim

KEY = jax.random.key(0)
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def test_nim_is_won_unless_a_multiple_of_three_is_left():
    game = Situations(Nim())
    found = solve(game, KEY)
    piles = np.argmax(found.seen[:, 2 : 2 + 32].reshape(-1, 8, 4).any(axis=2), axis=1)  # the mask, then f32[8]
    assert sorted(piles) == [1, 2, 3, 4, 5, 6, 7]
    assert found.worth.tolist() == [-1.0 if pile % 3 == 0 else 1.0 for pile in piles]
    for pile, best in zip(piles, found.best, strict=True):
        if pile % 3:
            assert best.tolist() == [pile % 3 == 1, pile % 3 == 2]
        else:
            assert best.all(), "every move loses"
    winner, anyone = perfect(found), match.contender_of("random", game)
    player = match.Contender("perfect", (), (), lambda agent, carry, key, seen: (winner(game, key, seen), carry))
    assert (match.play_games(game, player, anyone, KEY, 64) > 0).all()


@functools.cache
def by_hand(mine, theirs):
    """What a side reaches that moves next, of frozensets of cells."""
    if any(set(line) <= theirs for line in LINES):
        return -1
    free = set(range(9)) - mine - theirs
    return max((-by_hand(theirs, mine | {cell}) for cell in free), default=0)


@pytest.mark.long
def test_tic_tac_toe_is_as_by_hand():
    pytest.importorskip("pgx", reason="pgx is not installed: pip install 'purerl[pgx]'")
    game = match.game_of("pgx/tic_tac_toe")
    found = solve(game, KEY)
    assert len(found.worth) == 5478 - 958, "all positions but those in which it is over"
    boards = found.seen[:, -18:].reshape(-1, 9, 2)
    for board, worth, best in zip(boards, found.worth, found.best, strict=True):
        mine, theirs = (frozenset(np.flatnonzero(board[:, side]).tolist()) for side in (0, 1))
        assert worth == by_hand(mine, theirs)
        free = sorted(set(range(9)) - mine - theirs)
        assert np.flatnonzero(best).tolist() == [c for c in free if -by_hand(theirs, mine | {c}) == worth]
    players = {name: match.contender_of(name, game) for name in match.PLAYERS}
    for name, other in players.items():
        for first, second, sign in ((players["perfect"], other, 1), (other, players["perfect"], -1)):
            reward = sign * match.play_games(game, first, second, KEY, 200)
            assert (reward >= 0).all() and (name != "perfect" or (reward == 0).all())


class Drawn(Nim):
    """The pile of each game is drawn."""

    def reset(self, key):
        state, _ = super().reset(key)
        state = state._replace(left=jax.random.randint(key, (), 2, 8))
        return state, self.observe(state)


class Slippery(Nim):
    """A move may take one more."""

    def step(self, key, state, action):
        slip = jnp.where(jax.random.bernoulli(key) & (state.left > 2), 1, 0)
        return super().step(key, state._replace(left=state.left - slip), action)


@pytest.mark.long_for("move", "start")
@pytest.mark.parametrize("env", [Drawn(), Slippery()], ids=["start", "move"])
def test_chance_is_an_error(env):
    with pytest.raises(InputError, match="only supports deterministic games with a fixed starting position"):
        solve(Situations(env), KEY)


@pytest.mark.long
def test_large_games_are_errors():
    with pytest.raises(InputError, match="games with at most 5 positions; this one has more"):
        solve(Situations(Nim()), KEY, most=5)
