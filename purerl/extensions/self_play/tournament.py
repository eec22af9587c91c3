"""A tournament of all policies that self-play kept, and its table: elo.csv in a run's folder.

The host asks for the games of a few players at a time, so that a signal is answered between them.
"""

import operator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.extensions.groups.joint import multi_agent
from purerl.extensions.planning.modeling import planner
from purerl.extensions.self_play import elo, search_play
from purerl.extensions.self_play.self_play import SELF, SelfPlayAgent, SelfPlayConfig, acting, of_groups
from purerl.extensions.self_play.sides import both_sides
from purerl.loop.evaluate import MAX_STEPS, play_episodes
from purerl.loop.train import make_trainer
from purerl.reporting.files import csv_text, write_whole
from purerl.run.program import as_leaf
from purerl.types import Algorithm, Array, Config, Environment, EnvironmentSpec, Key, PyTree, pytree
from purerl.wrappers import Against, Player, Situations, at_random, lookahead
from purerl.wrappers.situations import Model, Situation
from purerl.xla.trees import where

if TYPE_CHECKING:
    from purerl.run.run import Run

EPISODES = 32  # episodes of every pair of players, for each assignment of sides
OPENING_MOVES = 2  # random moves before each game of two selves that plan: otherwise all their games are the same
MOST_ACTIONS = 100  # longest game against a player that looks ahead
COLUMNS: tuple[str, ...] = ("seed", "player", "update", "elo", "score")
SELVES = "self"  # the name of all players except `REFERENCES`
REFERENCES: dict[str, Player] = {"lookahead": lookahead, "random": at_random}  # they play against selves that search


def points(env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, key: Key) -> np.ndarray:
    """Return f64[P + 1, P + 1]: the points of each policy against each, in 2 x EPISODES games; the last is the learner.

    The policy with the higher return wins an episode; equal returns are a tie. Selves act as in training.
    """
    won = np.stack([_row(env, config, agent, key, jnp.int32(i)) for i in range(config.num_selves + 1)])
    return won + (EPISODES - won.T)


@jax.jit
def _row(env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, key: Key, first: Array) -> Array:
    """Return f32[P + 1], the points of a policy as the first side against each."""
    names = tuple(sorted(env.action_space.spaces))  # type: ignore[attr-defined]
    trainer = make_trainer(multi_agent, env, of_groups(config, names))
    players = jax.tree.map(lambda kept, x: jnp.concatenate([kept, x[None]]), agent.pool, acting(agent.learner))[SELF]
    count = config.num_selves + 1

    def game(second: Array) -> Array:
        sides = (jax.tree.map(operator.itemgetter(side), players) for side in (first, second))
        both = dict(zip(names, sides, strict=True))
        key_game = jax.random.fold_in(key, first * count + second)
        mine, other = (trainer.evaluate(both, key_game, EPISODES, explore=True).group_return[name] for name in names)
        return jnp.sum(jnp.where(mine > other, 1.0, jnp.where(mine == other, 0.5, 0.0)))

    return jax.vmap(game)(jnp.arange(count))


def search_points(env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, key: Key) -> np.ndarray:
    """Return the same for policies that plan, f64[n, n]: n = P + 1, and after them the players of `references`.

    Selves act as in evaluation. Games between two of them start with random moves. Sides are random in each game.
    """
    names = (SELVES,) * (config.num_selves + 1) + references(env)
    won = np.zeros((len(names),) * 2)
    for first, second in zip(*np.tril_indices(len(names), -1), strict=True):
        pair, players = jnp.array([first, second], jnp.int32), (names[first], names[second])
        won[first, second] = _games(
            env, config, agent, jax.random.fold_in(key, first * len(names) + second), pair=pair, players=players
        )
        won[second, first] = 2 * EPISODES - won[first, second]
    return won


@partial(jax.jit, static_argnames="players")
def _games(
    env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, key: Key, pair: Array, players: tuple[str, str]
) -> Array:
    """Return the points of the first of two players, f32[]; a player is a policy of `pair`, or a reference."""
    planner_of: Any = partial(_planner, config)
    game = Opening(env) if players == (SELVES, SELVES) else Situations(env)
    searcher = planner(planner_of, game)(EnvironmentSpec(game.observation_space, game.action_space), config.policy)
    selves = jax.tree.map(
        lambda kept, x: jnp.concatenate([kept, x[None]]), agent.pool, search_play.acting(agent.learner)
    )

    def player(name: str, index: Array) -> Player:
        if name != SELVES:
            return REFERENCES[name]
        one = jax.tree.map(lambda x: x[index], selves)
        batch_of = lambda situation: jax.tree.map(lambda x: x[None], situation)
        return lambda _, key, situation: searcher.act(one, (), key, batch_of(situation), False)[0][0]

    first, second = (player(name, index) for name, index in zip(players, pair, strict=True))

    def act(
        agent: PyTree, carry: PyTree, key: Key, situation: Situation, explore: bool
    ) -> tuple[PyTree, PyTree, PyTree]:
        keys = jax.random.split(key, situation.side.shape[0])
        return jax.vmap(lambda key, one: first(game, key, one))(keys, situation), carry, ()

    plays = Algorithm(init=lambda key: (), initial_carry=lambda num: (), act=act, update=lambda *agent: agent[:2])
    against = Against(game, opponent=second)
    played = play_episodes(plays, against, (), key, num_episodes=2 * EPISODES, max_steps=MAX_STEPS, explore=False)
    total = played.episode_return
    return jnp.sum(jnp.where(total > 0, 1.0, jnp.where(total == 0, 0.5, 0.0)))


@pytree
class Opening(Situations):
    """A turn-based game that starts after `OPENING_MOVES` random moves; a move that would end it is not made."""

    def reset(self, key: Key) -> tuple[Situation, Situation]:
        """Start an episode and make the moves."""
        key_start, *keys = jax.random.split(key, 1 + OPENING_MOVES)
        situation, _ = Situations.reset(self, key_start)
        for key_move in keys:
            key_act, key_step = jax.random.split(key_move)
            after, timestep = self.advance(key_step, situation, at_random(self, key_act, situation))
            situation = where(timestep.done, situation, after)
        return situation, situation


def references(env: Environment) -> tuple[str, ...]:
    """Return the names of those `REFERENCES` that are fast enough for a game: looking ahead tries n^2 moves."""
    (space, *_) = env.action_space.spaces.values()  # type: ignore[attr-defined]
    return tuple(name for name in REFERENCES if name != "lookahead" or space.space.n <= MOST_ACTIONS)


def _planner(config: SelfPlayConfig, spec: EnvironmentSpec, _: Config, *, model: Model) -> Algorithm:
    return search_play.planner(spec, config, model)


def rate_selves(run: "Run") -> list[str]:
    """Play all policies of each seed of a completed run against one another, and write elo.csv; return it as lines."""
    run.display.stage("earlier selves play one another")
    trainer: Any = run.plan.trainer  # as `self_play_trainer` made it
    env, config = both_sides(run.plan.env), trainer.config
    agents, rows = jax.device_get(run.progress.state.agent), []
    with run.stop.counts_at_once():
        for i in run.failed.alive.tolist():
            agent = jax.tree.map(lambda x, i=i: x[i], agents)
            rows += table(env, config, agent, run.options.seed + i)
    return write(rows, run.folder / "elo.csv")


def table(env: Environment, config: SelfPlayConfig, agent: SelfPlayAgent, seed: int) -> list[dict[str, Any]]:
    """Return a row per player: the update of a policy, the rating, and the fraction of games that it won.

    Args:
      env, config: the run's environment and settings.
      agent: the agent of one seed.
      seed: its number.
    """
    env, config = jax.tree.map(as_leaf, (env, config))
    play, others = (search_points, references(env)) if config.plans else (points, ())
    won = play(env, config, jax.device_put(agent), jax.random.key(seed))
    np.fill_diagonal(won, 0.0)
    score = won.sum(axis=1) / (2 * EPISODES * (len(won) - 1))
    at: list[tuple[str, Any]] = [(SELVES, int(update)) for update in (*agent.kept_at, agent.num_updates)]
    at += [(name, "") for name in others]
    return [
        {"seed": seed, "player": player, "update": update, "elo": round(rating, 1), "score": round(share, 4)}
        for (player, update), rating, share in zip(at, elo.ratings(won).tolist(), score.tolist(), strict=True)
    ]


def write(rows: list[dict[str, object]], path: Path) -> list[str]:
    """Write the rows as CSV; return them as lines to print."""
    write_whole(path, csv_text(rows))
    head = "  ".join(f"{name:>8}" for name in COLUMNS)
    return [head, *("  ".join(f"{row[name]:>8}" for name in COLUMNS) for row in rows)]
