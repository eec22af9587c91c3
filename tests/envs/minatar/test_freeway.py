"""Freeway equals the package's, step for step."""

import numpy as np
import pytest

from purerl.envs.minatar.freeway import Freeway, FreewayState
from tests.envs.minatar import minatar_oracle as oracle

pytest.importorskip("minatar", reason="the oracle is not installed: pip install minatar==1.0.15")


def queue(game, draws):
    """Ours decides speed and direction of a car by one draw; the package draws eight speeds, then eight directions."""
    choice = np.floor(draws * np.float32(10)).astype(int)
    return [*(choice % 5 + 0.5) / 5, *np.where(choice >= 5, 0.75, 0.25)]


def read(game):
    nibbles = lambda part: np.uint32(sum(int(part(car)) << 4 * i for i, car in enumerate(game.cars)))
    return FreewayState(
        chicken_y=np.int32(game.pos),
        move_timer=np.int32(game.move_timer),
        clock=np.int32(game.terminate_timer),
        x=nibbles(lambda car: car[0]),
        right=nibbles(lambda car: car[3] > 0),
        speed=nibbles(lambda car: abs(car[3])),
        timer=nibbles(lambda car: car[2]),
    )


def scripted(rng, observation):
    """Go up, with a pause now and then."""
    return 2 if rng.rand() < 0.9 else rng.randint(6)


def disturb(rng, game):
    """Put everything anywhere, near the end."""
    game.pos, game.move_timer, game.terminate_timer = rng.randint(1, 10), rng.randint(4), rng.randint(150)
    for car in game.cars:
        speed = rng.randint(1, 6)
        car[0], car[2], car[3] = rng.randint(10), rng.randint(speed + 1), speed * rng.choice([-1, 1])


GAME = oracle.Game(name="freeway", cls=Freeway, queue=queue, read=read, scripted=scripted, disturb=disturb)
POLICIES = pytest.mark.parametrize("policy", ["random", "scripted"])


@pytest.mark.long
@POLICIES
def test_equals_the_package(policy):
    counts = oracle.check(GAME, policy, episodes=oracle.LANES // 4, max_steps=2501)
    assert counts["steps"] == 2501 * counts["endings"]


@pytest.mark.long
def test_equals_the_package_from_late_starts():
    counts = oracle.check(GAME, "scripted", late=True)
    assert counts["reward"] > 50
    assert counts["endings"] == counts["episodes"]


@pytest.mark.slow
@POLICIES
def test_equals_the_package_for_200_episodes(policy):
    counts = oracle.check(GAME, policy, episodes=200, max_steps=2501)
    assert counts["endings"] == 200
