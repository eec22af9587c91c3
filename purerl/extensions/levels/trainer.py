"""Training on levels: each update plays a batch of them from their starts, scores them and learns.

Robust PLR and ACCEL learn only from levels that are replayed. ACCEL plays, after each replay, changed copies of the
levels that were just replayed. What is kept of the levels is part of the agent, so a checkpoint holds it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

import jax
import jax.numpy as jnp

from purerl.errors import InputError
from purerl.extensions.levels import buffer as buffers
from purerl.extensions.levels import scores
from purerl.extensions.levels.buffer import LevelBuffer
from purerl.extensions.levels.options import LevelOptions, check
from purerl.extensions.levels.space import Level, LevelSpace, held_out, level_space, on_level
from purerl.fields import number, pytree
from purerl.functional.returns import gae
from purerl.loop.metrics import TrainMetrics
from purerl.loop.train import CompiledTrainer, collect
from purerl.loop.trainer import MakeTrainer, Trainer, TrainState
from purerl.loop.vector import VectorEnvironment
from purerl.prng import update_keys
from purerl.types import (
    LEARNING,
    Algorithm,
    AlgorithmFactory,
    Array,
    Config,
    Environment,
    EstimateValues,
    Key,
    Metrics,
    PyTree,
    Rollout,
)
from purerl.wrappers import DomainRandomization
from purerl.xla.once import traced_once

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

NEW, REPLAYED, MUTATED = 0, 1, 2  # levels of an update


class LevelAgent(NamedTuple):
    """An agent, and its buffer of levels."""

    learner: PyTree  # the algorithm's agent
    buffer: LevelBuffer
    playing: PyTree  # the levels of the last update, [B, ...]
    kind: Array  # i32[], NEW, REPLAYED or MUTATED: what they were


class Choice(NamedTuple):
    """The levels of an update."""

    level: PyTree  # [B, ...]
    kind: Array  # i32[], NEW, REPLAYED or MUTATED
    place: Array  # i32[B], where in the buffer replayed ones are


@pytree
class LevelVector(VectorEnvironment):
    """Instances of an environment, each with its own level."""

    level: Any = number(doc="[B, ...], fields of the environment by name")

    def each(self, function: Callable[[Environment, *Ts], R], *arguments: *Ts) -> R:
        """Return the results [B, ...] of a function (env, *arguments) on each level; arguments are [B, ...]."""

        def one(level: PyTree, *arguments: *Ts) -> R:
            return function(on_level(self.env, level), *arguments)

        return jax.vmap(one)(self.level, *arguments)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LevelTrainer(CompiledTrainer):
    """The `Trainer` of an algorithm that replays levels; `environment` samples the held-out levels."""

    config: Any
    options: LevelOptions
    plain: Algorithm  # the algorithm without levels
    space: LevelSpace
    values: EstimateValues

    def init(self, key: Key) -> TrainState:
        """Start a run on sampled levels."""
        state = super().init(key)
        vector_state, observation = self._on(state.agent.playing).reset(key)
        return state._replace(vector=vector_state, observation=observation)

    def step(self, state: TrainState) -> tuple[TrainState, TrainMetrics]:
        """Choose levels, play them from their starts, score them and learn."""
        now, keys = state.num_updates, update_keys(state.key, state.num_updates)
        key_choice, key_reset, key_update = jax.random.split(keys[1], 3)
        agent = state.agent
        choice = self._choose(key_choice, agent, now)
        vector = self._on(choice.level)
        vector_state, observation = vector.reset(key_reset)
        carry = self.algorithm.initial_carry(self.config.num_envs)
        state = state._replace(vector=vector_state, observation=observation, carry=carry)
        state, rollout = collect(self.algorithm, vector, state, keys[0], self.config.rollout_length)
        best = scores.best_returns(rollout.reward, rollout.done)
        truncated = rollout.truncated.at[-1].set(~rollout.terminated[-1])  # no episode continues in the next rollout
        rollout = rollout._replace(truncated=truncated)
        buffer = self._scored(agent, choice, rollout, best, now)
        learner, metrics = self._learned(agent.learner, choice, key_update, rollout)
        agent = LevelAgent(learner=learner, buffer=buffer, playing=choice.level, kind=choice.kind)
        state = state._replace(agent=agent, num_updates=now + 1)
        metrics |= {
            "levels/filled": buffer.filled.astype(jnp.float32) / self.options.levels_capacity,
            "levels/replayed": (choice.kind == REPLAYED).astype(jnp.float32),
            "levels/score": buffers.mean_score(buffer),
        }
        return self.placed(state), state.vector.statistics.metrics(metrics)

    def _on(self, levels: PyTree) -> LevelVector:
        of = self.vector
        return LevelVector(**{f.name: getattr(of, f.name) for f in dataclasses.fields(of)}, level=levels)

    def _choose(self, key: Key, agent: LevelAgent, now: Array) -> Choice:
        """Return the levels of the next update."""
        config, options, buffer = self.config, self.options, agent.buffer
        key_kind, key_new, key_place, key_mutate = jax.random.split(key, 4)
        least = jnp.maximum(config.num_envs, options.levels_minimum_fill * options.levels_capacity)
        ready = buffer.filled.astype(jnp.float32) >= least
        replays = ready & (jax.random.uniform(key_kind) < options.levels_replay_probability)
        kind = jnp.where(replays, REPLAYED, NEW)
        place = buffers.draw(
            key_place,
            buffer,
            config.num_envs,
            now,
            temperature=options.levels_temperature,
            staleness=options.levels_staleness,
        )
        sources = [
            lambda: _drawn(self.space, key_new, config.num_envs),
            lambda: jax.tree.map(lambda x: x[place], buffer.level),
        ]
        if options.levels == "accel":
            kind = jnp.where(agent.kind == REPLAYED, MUTATED, kind)
            sources.append(lambda: self._mutated(key_mutate, agent.playing))
        return Choice(level=jax.lax.switch(kind, sources), kind=kind.astype(jnp.int32), place=place)

    def _mutated(self, key: Key, levels: PyTree) -> PyTree:
        def one(key: Key, level: Level) -> Level:
            change = lambda i, level: self.space.mutate(jax.random.fold_in(key, i), level)
            return jax.lax.fori_loop(0, self.options.levels_mutations, change, level)

        return jax.vmap(one)(jax.random.split(key, self.config.num_envs), levels)

    def _scored(self, agent: LevelAgent, choice: Choice, rollout: Rollout, best: Array, now: Array) -> LevelBuffer:
        """Return the buffer updated with the levels that were played, and the best returns on them."""
        buffer, replayed = agent.buffer, choice.kind == REPLAYED
        values = self.values(agent.learner, rollout)
        if self.options.levels_score == "positive_value_loss":
            advantage = gae(
                values.reward,
                values.value,
                values.next_value,
                terminated=rollout.terminated,
                done=rollout.done,
                discount=self.config.discount,
                gae_lambda=self.config.gae_lambda,
            )
            score = scores.positive_value_loss(advantage)
        else:
            known = jnp.where(replayed, jnp.maximum(best, buffer.best_return[choice.place]), best)
            score = scores.max_monte_carlo(values.value, values.scale(known))
        return jax.lax.cond(
            replayed,
            lambda: buffers.rescore(buffer, choice.place, score, best, now),
            lambda: buffers.insert(buffer, choice.level, score, best, now),
        )

    def _learned(self, learner: PyTree, choice: Choice, key: Key, rollout: Rollout) -> tuple[PyTree, Metrics]:
        """Return the learner and its metrics; with a gate, it learns only from replayed levels."""
        learn = traced_once(lambda: self.plain.update(learner, key, rollout))
        if self.options.levels == "plr":
            return learn()
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(learn)[1])
        learner, metrics = jax.lax.cond(choice.kind == REPLAYED, learn, lambda: (learner, zeros))
        return learner, {**metrics, LEARNING: (choice.kind == REPLAYED).astype(jnp.float32)}


def level_trainer(
    make: MakeTrainer, options: LevelOptions, factory: AlgorithmFactory, env: Environment, config: Config
) -> CompiledTrainer:
    """Return the trainer of an algorithm on levels.

    Args:
      make: makes the trainer without levels.
      options: which levels, and how they are chosen.
      factory: (spec, config) -> Algorithm.
      env: one environment.
      config: the algorithm's settings.

    Raises:
      InputError: if the environment has no levels, or the algorithm cannot be trained on them.
    """
    check(options, config.num_envs)
    space = level_space(env, options.levels_over, config)
    drawn = DomainRandomization(env, redraw=lambda key, env: on_level(env, space.draw(key)))
    evaluation = evaluation_environment(env) or drawn
    if options.levels == "dr":
        return dataclasses.replace(
            _compiled(make(factory, drawn, config)), environment=evaluation, evaluation=evaluation
        )
    if config.reset_policy == "pool":
        raise InputError(f"levels {options.levels} needs a reset policy other than pool: each level has its own resets")
    trainer = _compiled(make(factory, env, config))
    plain = trainer.algorithm
    policy = trainer.policies[""]
    return LevelTrainer(
        algorithm=_with_buffer(plain, space, config, options),
        environment=evaluation,
        config=config,
        options=options,
        vector=trainer.vector,
        evaluation=evaluation,
        policies={"": policy._replace(select=lambda agent: policy.select(agent.learner))},
        plain=plain,
        space=space,
        values=_values_of(plain, factory, options),
    )


def _compiled(trainer: Trainer) -> CompiledTrainer:
    if not isinstance(trainer, CompiledTrainer):
        raise InputError("levels need the compiled loop")
    return trainer


def _with_buffer(plain: Algorithm, space: LevelSpace, config: Config, options: LevelOptions) -> Algorithm:
    """Return an algorithm whose agents also hold a buffer of levels; the trainer updates the buffers."""

    def init(key: Key) -> LevelAgent:
        levels = _drawn(space, jax.random.fold_in(key, NEW), config.num_envs)
        return LevelAgent(
            learner=plain.init(key),
            buffer=buffers.empty(jax.tree.map(lambda x: x[0], levels), options.levels_capacity),
            playing=levels,
            kind=jnp.int32(NEW),
        )

    def act(agent: LevelAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        return plain.act(agent.learner, carry, key, observation, explore)

    return plain._replace(init=init, act=act, update=_not_alone, values=None)


def _drawn(space: LevelSpace, key: Key, num: int) -> PyTree:
    """Sample levels, [num, ...]."""
    return jax.vmap(space.draw)(jax.random.split(key, num))


def evaluation_environment(env: Environment) -> DomainRandomization | None:
    """Return the environment that samples a held-out level for each episode; None if there are none."""
    levels = list(held_out(env).values())
    if not levels:
        return None
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *levels)

    def redraw(key: Key, env: Environment) -> Environment:
        row = jax.random.randint(key, (), 0, len(levels))
        return on_level(env, jax.tree.map(lambda x: x[row], stacked))

    return DomainRandomization(env, redraw=redraw)


def _values_of(algorithm: Algorithm, factory: AlgorithmFactory, options: LevelOptions) -> EstimateValues:
    """Return `algorithm.values`.

    Raises:
      InputError: if the algorithm has no value function of the state, such as one that learns from replay.
    """
    if algorithm.values is None:
        name = getattr(getattr(factory, "func", factory), "__name__", "the algorithm")
        raise InputError(
            f"levels {options.levels} needs the values of an actor-critic, which {name} does not have: use ppo, "
            "a2c or impala; levels dr works with any algorithm"
        )
    return algorithm.values


def _not_alone(agent: PyTree, key: Key, rollout: Rollout) -> tuple[PyTree, Metrics]:
    raise InputError("an algorithm with levels learns only in its trainer, which tracks the levels that were played")
