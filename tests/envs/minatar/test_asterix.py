"""Asterix equals the package's, step for step."""

import numpy as np
import pytest

from purerl.envs.minatar.asterix import Asterix, AsterixState
from tests.envs.minatar import minatar_oracle as oracle

pytest.importorskip("minatar", reason="the oracle is not installed: pip install minatar==1.0.15")


def read(game):
    nibbles = lambda part: np.uint32(sum(int(part(e)) << 4 * i for i, e in enumerate(game.entities) if e is not None))
    return AsterixState(
        player_x=np.int32(game.player_x),
        player_y=np.int32(game.player_y),
        present=nibbles(lambda entity: 1),
        x=nibbles(lambda entity: entity[0]),
        right=nibbles(lambda entity: entity[2]),
        gold=nibbles(lambda entity: entity[3]),
        spawn_timer=np.int32(game.spawn_timer),
        move_timer=np.int32(game.move_timer),
        ramp_timer=np.int32(game.ramp_timer),
        difficulty=np.int32(game.ramp_index),
    )


def scripted(rng, observation):
    """Go where no enemy is near and gold is."""
    (y, x), *_ = np.argwhere(observation[:, :, 0])
    scores = []
    for dx, dy in ((0, 0), (-1, 0), (0, -1), (1, 0), (0, 1)):
        column, row = np.clip(x + dx, 0, 9), np.clip(y + dy, 1, 8)
        distance = lambda channel: np.abs(np.flatnonzero(observation[row, :, channel]) - column)  # noqa: B023
        near = np.sum(distance(1) <= 1)
        gold = np.max(1 - 0.05 * distance(3), initial=0)
        scores.append(gold - 10 * near + 0.1 * rng.rand())
    return int(np.argmax(scores))


def disturb(rng, game):
    """Set any ramp, timers and entities."""
    game.ramp_index = rng.randint(10)
    game.spawn_speed, game.move_speed = max(10 - game.ramp_index, 1), max(5 - game.ramp_index // 2, 1)
    game.spawn_timer, game.move_timer = rng.randint(game.spawn_speed + 1), rng.randint(game.move_speed + 1)
    game.ramp_timer = rng.randint(-1, 101)
    game.player_x, game.player_y = rng.randint(10), rng.randint(1, 9)
    fill = rng.rand()
    for slot in range(8):
        if rng.rand() < fill:
            game.entities[slot] = [rng.randint(10), slot + 1, rng.rand() < 0.5, rng.rand() < 0.5]


GAME = oracle.Game(
    name="asterix", cls=Asterix, queue=lambda game, draws: draws, read=read, scripted=scripted, disturb=disturb
)


@pytest.mark.long
@oracle.POLICIES
def test_equals_the_package(policy, late):
    counts = oracle.check(GAME, policy, late=late, max_steps=300)
    assert counts["reward"] > 50
