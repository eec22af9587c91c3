"""Breakout equals the package's, step for step."""

import numpy as np
import pytest

from purerl.envs.minatar.breakout import Breakout, BreakoutState
from tests.envs.minatar import minatar_oracle as oracle

pytest.importorskip("minatar", reason="the oracle is not installed: pip install minatar==1.0.15")

DIRECTIONS = ((-1, -1), (1, -1), (1, 1), (-1, 1))


def read(game):
    direction_x, direction_y = DIRECTIONS[game.ball_dir]
    bricks = sum(1 << (x + 10 * (y - 1)) for y, x in np.argwhere(game.brick_map).tolist())
    return BreakoutState(
        paddle=np.int32(game.pos),
        ball_x=np.int32(game.ball_x),
        ball_y=np.int32(game.ball_y),
        direction_x=np.int32(direction_x),
        direction_y=np.int32(direction_y),
        last_x=np.int32(game.last_x),
        last_y=np.int32(game.last_y),
        bricks=np.uint32(bricks),
        struck=np.bool_(game.strike),
    )


def scripted(rng, observation):
    """Be where the ball comes down."""
    paddle = np.argmax(observation[9, :, 0])
    (y, x), *_ = np.argwhere(observation[:, :, 1])
    (last_y, last_x), *_ = np.argwhere(observation[:, :, 2])
    target = x + np.sign(x - last_x) * (8 - y) if y > last_y else x
    target = -target if target < 0 else 18 - target if target > 9 else target
    return 0 if target == paddle else 1 if target < paddle else 3


def disturb(rng, game):
    """Leave few bricks, and put the ball, the paddle and the strike flag anywhere."""
    game.brick_map = np.zeros((10, 10))
    for _ in range(rng.randint(1, 6)):
        game.brick_map[rng.randint(1, 4), rng.randint(10)] = 1
    game.ball_x, game.ball_y, game.pos = rng.randint(10), rng.randint(9), rng.randint(10)
    game.last_x, game.last_y = rng.randint(10), rng.randint(10)
    game.ball_dir, game.strike = rng.randint(4), rng.rand() < 0.5


GAME = oracle.Game(
    name="breakout", cls=Breakout, queue=lambda game, draws: draws, read=read, scripted=scripted, disturb=disturb
)


@pytest.mark.long
@oracle.POLICIES
def test_equals_the_package(policy, late):
    counts = oracle.check(GAME, policy, late=late)
    assert counts["reward"] > 50
