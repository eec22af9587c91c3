"""A tournament of all selves that self-play kept, and its table: elo.csv in a run's folder."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.loop.evaluate import MAX_STEPS, play_episodes
from purerl.loop.modeling import with_model
from purerl.loop.train import make_trainer
from purerl.multi_agent import elo, search_play
from purerl.multi_agent.joint import multi_agent
from purerl.multi_agent.self_play import SELF, SelfPlayAgent, SelfPlayConfig, acting, of_groups
from purerl.reporting.files import csv_text, write_whole
from purerl.run.program import as_leaf
from purerl.types import Algorithm, Array, Config, Environment, EnvironmentSpec, Key, Model, Situation
from purerl.wrappers import Against, Player, at_random, lookahead

EPISODES = 32  # of every two players with either on either side
COLUMNS: tuple[str, ...] = ("seed", "player", "update", "elo", "score")
SELVES = "self"  # the name of all players but those of `REFERENCES`
REFERENCES: dict[str, Player] = {"lookahead": lookahead, "random": at_random}  # they play against selves that search


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


def search_points(env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, key: Key) -> Array:
    """Return f32[n, n] likewise of selves that search: n = P + 1, and after them the players of `REFERENCES`.

    Sides are drawn for each game.
    """
    planner_of: Any = partial(_planner, config)
    factory, game, _ = with_model(planner_of, env)
    planner = factory(EnvironmentSpec(game.observation_space, game.action_space), config.policy)
    selves = jax.tree.map(
        lambda kept, x: jnp.concatenate([kept, x[None]]), agent.pool, search_play.acting(agent.learner)
    )
    count, others = config.num_selves + 1, list(REFERENCES.values())

    def player(index: Array) -> Player:
        """Return the self of a number, or from P + 1 on one of the others: all move, and one counts."""
        one = jax.tree.map(lambda x: x[jnp.minimum(index, count - 1)], selves)

        def move(_: Any, key: Key, situation: Situation) -> Array:
            batch = jax.tree.map(lambda x: x[None], situation)
            moves = [planner.act(one, (), key, batch, True)[0][0], *(other(game, key, situation) for other in others)]
            return jnp.stack(moves)[jnp.maximum(index - count + 1, 0)]

        return move

    def games(pair: Array) -> Array:
        """Return what the first of two players won, f32[]."""
        first = player(pair[0])

        def act(agent: Any, carry: Any, key: Key, situation: Situation, explore: bool) -> tuple[Any, Any, Any]:
            keys = jax.random.split(key, situation.side.shape[0])
            return jax.vmap(lambda key, one: first(game, key, one))(keys, situation), carry, ()

        plays = Algorithm(init=lambda key: (), initial_carry=lambda num: (), act=act, update=lambda *agent: agent[:2])
        against, key_games = Against(game, opponent=player(pair[1])), jax.random.fold_in(key, pair[0] * count + pair[1])
        total = play_episodes(plays, against, (), key_games, 2 * EPISODES, MAX_STEPS, True).episode_return
        return jnp.sum(jnp.where(total > 0, 1.0, jnp.where(total == 0, 0.5, 0.0)))

    first, second = jnp.tril_indices(count + len(others), -1)
    between = jax.lax.map(games, jnp.stack([first, second], axis=-1))
    won = jnp.zeros((count + len(others),) * 2).at[first, second].set(between)
    return won.at[second, first].set(2 * EPISODES - between)


def _planner(config: SelfPlayConfig, spec: EnvironmentSpec, _: Config, *, model: Model) -> Algorithm:
    return search_play.planner(spec, config, model)


def table(env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, seed: int) -> list[dict[str, Any]]:
    """Return a row per player: the update of a self, the rating, and what share of its games it won.

    Args:
      env, config: of the run.
      agent: of one seed.
      seed: its number.
    """
    count, updates = config.num_selves, int(config.total_timesteps) // config.steps_per_update
    numbers = jax.tree.map(as_leaf, (env, config))
    play = search_points if config.uses_model else points
    won = np.array(jax.jit(play)(*numbers, agent, jax.random.key(seed)))
    np.fill_diagonal(won, 0.0)
    score = won.sum(axis=1) / (2 * EPISODES * (len(won) - 1))
    at: list[tuple[str, Any]] = [(SELVES, math.ceil(s * updates / count)) for s in range(count)]
    at += [(SELVES, updates), *((name, "") for name in list(REFERENCES)[: len(won) - count - 1])]
    return [
        {"seed": seed, "player": player, "update": update, "elo": round(rating, 1), "score": round(share, 4)}
        for (player, update), rating, share in zip(at, elo.ratings(won).tolist(), score.tolist(), strict=True)
    ]


def write(rows: list[dict[str, Any]], path: Path) -> list[str]:
    """Write the rows as CSV; return them as lines to print."""
    write_whole(path, csv_text(rows))
    head = "  ".join(f"{name:>8}" for name in COLUMNS)
    return [head, *("  ".join(f"{row[name]:>8}" for name in COLUMNS) for row in rows)]
