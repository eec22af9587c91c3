"""Space Invaders equals the package's, step for step."""

import numpy as np
import pytest

from purerl.envs.minatar.space_invaders import SpaceInvaders, SpaceInvadersState
from tests.envs.minatar import minatar_oracle as oracle

pytest.importorskip("minatar", reason="the oracle is not installed: pip install minatar==1.0.15")


def read(game):
    rows, columns = np.nonzero(game.alien_map)
    block_x, block_y = columns.min(), rows.min()
    aliens = sum(1 << int(x - block_x + 6 * (y - block_y)) for x, y in zip(columns, rows, strict=True))
    bullets = sorted(np.argwhere(game.f_bullet_map).tolist(), reverse=True) + [[-1, 0]] * 2
    alien_bullets = [*np.argwhere(game.e_bullet_map).tolist(), [-1, 0]]
    numbers = dict(  # noqa: C408
        cannon=game.pos,
        block_x=block_x,
        block_y=block_y,
        direction=game.alien_dir,
        bullet_x=bullets[0][1],
        bullet_y=bullets[0][0],
        older_bullet_x=bullets[1][1],
        older_bullet_y=bullets[1][0],
        alien_bullet_x=alien_bullets[0][1],
        alien_bullet_y=alien_bullets[0][0],
        move_timer=game.alien_move_timer,
        alien_shot_timer=game.alien_shot_timer,
        shot_timer=game.shot_timer,
        difficulty=game.ramp_index,
    )
    return SpaceInvadersState(aliens=np.uint32(aliens), **{name: np.int32(value) for name, value in numbers.items()})


def scripted(rng, observation):
    """Dodge what falls, else shoot at what is above, else go below an alien."""
    x = int(np.argmax(observation[9, :, 0]))
    falls = observation[5:10, :, 5].any(0)
    if falls[x]:
        return 1 if x > 0 and (x == 9 or rng.rand() < 0.5) else 3
    columns = np.flatnonzero(observation[:, :, 1].any(0))
    if rng.rand() < 0.5 and x in columns:
        return 5
    target = columns[np.argmin(np.abs(columns - x))]
    step = int(np.sign(target - x)) or (1 if rng.rand() < 0.5 else -1)
    return 0 if falls[min(max(x + step, 0), 9)] else 3 if step > 0 else 1


def disturb(rng, game):
    """Leave few aliens anywhere, in a wave of any number, with bullets in flight."""
    game.ramp_index = rng.randint(7)
    game.enemy_move_interval = 12 - game.ramp_index
    width, height = rng.randint(1, 7), rng.randint(1, 5)
    left, top = rng.randint(11 - width), rng.randint(11 - height)
    block = rng.rand(height, width) < rng.choice([0.3, 0.9])
    block[0, 0] = block[-1, -1] = True
    game.alien_map = np.zeros((10, 10))
    game.alien_map[top : top + height, left : left + width] = block
    game.alien_dir, game.alien_move_timer = rng.choice([-1, 1]), rng.randint(1 + min(block.sum(), 12 - game.ramp_index))
    game.alien_shot_timer, game.pos = rng.randint(11), rng.randint(10)
    game.f_bullet_map, game.e_bullet_map = np.zeros((10, 10)), np.zeros((10, 10))
    age = rng.randint(12)  # age of the last shot, in steps
    game.shot_timer = max(4 - age, 0)
    if age <= 8:
        game.f_bullet_map[8 - age, rng.randint(10)] = 1
    row = rng.randint(9 - game.alien_shot_timer, 10)  # gone before the next shot
    if row >= 0 and rng.rand() < 0.5:
        game.e_bullet_map[row, rng.randint(10)] = 1


GAME = oracle.Game(
    name="space_invaders",
    cls=SpaceInvaders,
    queue=lambda game, draws: draws,
    read=read,
    scripted=scripted,
    disturb=disturb,
)


@pytest.mark.long
@oracle.POLICIES
def test_equals_the_package(policy, late):
    counts = oracle.check(GAME, policy, late=late)
    assert counts["reward"] > 50
