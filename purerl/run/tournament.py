"""A tournament of all selves that self-play kept, and its table: elo.csv in a run's folder."""

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.loop.train import make_trainer
from purerl.multi_agent import elo
from purerl.multi_agent.joint import multi_agent
from purerl.multi_agent.self_play import SELF, SelfPlayAgent, SelfPlayConfig, acting, of_groups
from purerl.reporting.files import csv_text, write_whole
from purerl.run.program import as_leaf
from purerl.types import Array, Environment, Key

EPISODES = 32  # of every two players with either on either side
COLUMNS: tuple[str, ...] = ("seed", "update", "elo", "score")


def points(env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, key: Key) -> Array:
    """Return f32[P + 1, P + 1]: what each self won against each, of 2 x EPISODES games; the last is the learner.

    Who has the higher return in an episode has won it; equal ones are a draw. Selves act as in training.
    """
    names = tuple(sorted(env.action_space.spaces))  # type: ignore[attr-defined]
    trainer = make_trainer(multi_agent, env, of_groups(config, names))
    players = jax.tree.map(lambda kept, x: jnp.concatenate([kept, x[None]]), agent.pool, acting(agent.learner))[SELF]
    count = config.num_selves + 1

    def game(pair: Array) -> Array:
        """Return what the first of two players won as the first side, f32[]."""
        both = {name: jax.tree.map(lambda x, i=i: x[pair[i]], players) for i, name in enumerate(names)}
        key_game = jax.random.fold_in(key, pair[0] * count + pair[1])
        first, second = (trainer.evaluate(both, key_game, EPISODES, explore=True).group_return[name] for name in names)
        return jnp.sum(jnp.where(first > second, 1.0, jnp.where(first == second, 0.5, 0.0)))

    pairs = jnp.stack(jnp.meshgrid(jnp.arange(count), jnp.arange(count), indexing="ij"), axis=-1)
    won = jax.lax.map(jax.vmap(game), pairs)
    return won + (EPISODES - won.T)


def table(env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, seed: int) -> list[dict[str, Any]]:
    """Return a row per self: the update it is of, its rating, and what share of its games it won.

    Args:
      env, config: of the run.
      agent: of one seed.
      seed: its number.
    """
    count, updates = config.num_selves, int(config.total_timesteps) // config.steps_per_update
    numbers = jax.tree.map(as_leaf, (env, config))
    won = np.array(jax.jit(points)(*numbers, agent, jax.random.key(seed)))
    np.fill_diagonal(won, 0.0)
    score = won.sum(axis=1) / (2 * EPISODES * count)
    at = [*(math.ceil(s * updates / count) for s in range(count)), updates]
    return [
        {"seed": seed, "update": update, "elo": round(rating, 1), "score": round(share, 4)}
        for update, rating, share in zip(at, elo.ratings(won).tolist(), score.tolist(), strict=True)
    ]


def write(rows: list[dict[str, Any]], path: Path) -> list[str]:
    """Write the rows as CSV; return them as lines to print."""
    write_whole(path, csv_text(rows))
    head = "  ".join(f"{name:>8}" for name in COLUMNS)
    return [head, *("  ".join(f"{row[name]:>8}" for name in COLUMNS) for row in rows)]
