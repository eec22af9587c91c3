"""Seaquest equals the package's, step for step."""

import numpy as np
import pytest

from purerl.envs.minatar.seaquest import Seaquest, SeaquestState, Swimmer
from tests.envs.minatar import minatar_oracle as oracle

pytest.importorskip("minatar", reason="the oracle is not installed: pip install minatar==1.0.15")


def queue(game, draws):
    """The package draws only for what it lets in."""
    return [*(draws[:3] if game.e_spawn_timer == 0 else []), *(draws[3:] if game.d_spawn_timer == 0 else [])]


def read(game):
    enemies, phases = np.zeros((6, 8), np.uint32), np.zeros((6, 8), np.uint32)
    lane_right = np.zeros(8, bool)
    for x, y, right, timer in game.e_fish:
        enemies[timer, y - 1] |= np.uint32(1 << x)
        lane_right[y - 1] = right
    for x, y, right, timer, shot in game.e_subs:
        digit = lambda i: shot >> i & 1  # noqa: B023
        enemies[timer, y - 1] |= np.uint32((1 | 1 << 10 | digit(0) << 20) << x)
        phases[timer, y - 1] |= np.uint32((digit(1) | digit(2) << 10 | digit(3) << 20) << x)
        lane_right[y - 1] = right
    bullets = {False: np.zeros(8, np.uint32), True: np.zeros(8, np.uint32)}
    for x, y, right in game.e_bullets:
        bullets[bool(right)][y - 1] |= np.uint32(1 << x)
    return SeaquestState(
        x=np.int32(game.sub_x),
        y=np.int32(game.sub_y),
        right=np.bool_(game.sub_or),
        oxygen=np.int32(game.oxygen),
        divers_aboard=np.int32(game.diver_count),
        surfaced=np.bool_(game.surface),
        bullets=_swimmers([(*bullet, 0) for bullet in reversed(game.f_bullets)]),
        divers=_swimmers(game.divers),
        enemies=enemies,
        phases=phases,
        lane_right=lane_right,
        bullets_left=bullets[False],
        bullets_right=bullets[True],
        clock=np.int32(0),
        spawn_timer=np.int32(game.e_spawn_timer),
        diver_timer=np.int32(game.d_spawn_timer),
        shot_timer=np.int32(game.shot_timer),
        difficulty=np.int32(game.ramp_index),
    )


def _swimmers(rows):
    rows = [*rows, (-1, 0, False, 0), (-1, 0, False, 0)][:2]
    return tuple(
        Swimmer(x=np.int32(x), y=np.int32(y), right=np.bool_(right), timer=np.int32(timer))
        for x, y, right, timer in rows
    )


def scripted(rng, observation):
    """Surface in time, shoot what is ahead, dodge what is near, and fetch divers."""
    (y, x), *_ = np.argwhere(observation[:, :, 0])
    right = observation[y, x - 1, 1] if x > 0 else False
    oxygen, aboard = observation[9, :, 7].sum(), observation[9, :, 8].sum()
    if y > 0 and (oxygen <= 1 or aboard == 6) and (aboard > 0 or oxygen == 0):
        return 2
    threat = observation[:, :, 4:7].any(2)
    ahead = threat[y, x + 1 :] if right else threat[y, :x]
    if y > 0 and ahead.any() and rng.rand() < 0.6:
        return 5
    if threat[y, max(x - 2, 0) : x + 3].any() and y > 0:
        return 2 if y > 1 and not threat[y - 1, max(x - 2, 0) : x + 3].any() else 4
    divers = np.argwhere(observation[:, :, 9])
    if len(divers) and aboard < 6 and rng.rand() < 0.9:
        row, column = divers[0]
        if row != y:
            return 4 if row > y else 2 if y > 1 else 0
        return 0 if column == x else 3 if column > x else 1
    return rng.choice([1, 3, 4, 5]) if y < 2 else rng.choice([1, 3, 5, 5, 2, 4])


def disturb(rng, game):
    """Set any ramp, oxygen, number of divers aboard and place, with enemies and divers around."""
    game.ramp_index = rng.choice([rng.randint(20), 19])
    game.e_spawn_speed, game.move_speed = max(20 - game.ramp_index, 1), max(5 - game.ramp_index // 2, 2)
    game.e_spawn_timer, game.d_spawn_timer = rng.randint(game.e_spawn_speed + 1), rng.randint(31)
    game.sub_x, game.sub_y = rng.randint(1, 9), rng.choice([0, 1, rng.randint(9)])
    game.sub_or, game.surface = rng.rand() < 0.5, game.sub_y == 0
    game.oxygen = rng.choice([rng.randint(3), rng.randint(201)])
    game.diver_count, game.shot_timer = rng.randint(-3, 7), rng.randint(6)
    for y in range(1, 9):
        right = rng.rand() < 0.5
        for x in rng.permutation(10)[: rng.randint(4)].tolist():
            enemy = [x, y, right, rng.randint(game.move_speed)]
            if rng.rand() < 0.5:
                game.e_fish.append(enemy)
            else:
                game.e_subs.append([*enemy, rng.randint(11)])
    if rng.rand() < 0.5:  # two divers about to come aboard, off the grid before the next one
        game.d_spawn_timer, game.sub_x, game.sub_y = 30, rng.choice([2, 7]), max(game.sub_y, 1)
        game.diver_count = rng.choice([4, 5, 5, 6])
        for _ in range(2):
            x = game.sub_x + rng.randint(-1, 2)
            game.divers.append([x, game.sub_y, game.sub_x == 7, rng.randint(6)])


GAME = oracle.Game(name="seaquest", cls=Seaquest, queue=queue, read=read, scripted=scripted, disturb=disturb)


@pytest.mark.long
@oracle.POLICIES
def test_equals_the_package(policy, late):
    counts = oracle.check(GAME, policy, late=late, episodes=400 if late else 200)
    assert counts["reward"] > 10
