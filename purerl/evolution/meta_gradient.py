"""Meta-gradients: the derivative of an agent's policy after K updates with respect to the candidate that trained it.

A population of agents of all ages learns by one candidate. In each generation every agent takes K updates, then plays a
new rollout. An advantage actor-critic's loss on that rollout is differentiated back through the K updates, and Adam
moves the candidate along the mean over agents. Each agent is reset at an age of its own.

Source: Xu et al. (2018), arXiv:1805.09801; agents of all ages as Oh et al. (2020), arXiv:2007.08794.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from purerl import registry
from purerl.devices import memory
from purerl.errors import InputError
from purerl.evolution.baseline import Baseline, BaselineState, baseline
from purerl.evolution.inner_loop import Learner, Task, in_chunks
from purerl.evolution.method import Generation, Method, check_search, flatten
from purerl.functional import masked
from purerl.loop.metrics import has_nan
from purerl.loop.train import CompiledTrainer, compiled_trainer, whole_updates
from purerl.loop.trainer import TrainState
from purerl.optim.optimizers import apply_gradients, differentiable_steps
from purerl.prng import convert, is_key, update_keys
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, PyTree, Rollout
from purerl.xla import backend, switches
from purerl.xla.trees import strong, zeros

MAX_NORM = 1.0  # largest norm of an agent's meta-gradient, which is clipped to it


class Life(NamedTuple):
    """An agent that learns by the candidate; in a population all fields have a leading axis [P]."""

    train: TrainState
    baseline: BaselineState
    key: Key  # that the parameters of its environment are drawn from
    end: Array  # i32[], updates after which it is reset
    episode_return: Array  # f32[], the latest known; NaN before the first episode ended


class SearchState(NamedTuple):
    """The state of a search by meta-gradients."""

    center: Array  # f32[n]
    opt_state: PyTree
    key: Key  # generation n draws from fold_in(key, n)
    generation: Array  # i32[]
    lives: tuple[Life, ...]  # by task, [P, ...] each


class LifeReport(NamedTuple):
    """The results of one agent in a generation."""

    gradient: Array  # f32[n], scaled down to `MAX_NORM`; 0 of an agent that failed
    norm: Array  # f32[], of the gradient before
    loss: Array  # f32[], the outer loss
    progress: Array  # f32[], the agent's age, as a fraction of a whole training
    failed: Array  # bool[]


def make_meta_gradient(
    candidate: PyTree,
    learner: Learner,
    tasks: Sequence[Task],
    *,
    population: int = 16,
    inner_updates: int = 5,
    learning_rate: float = 1e-3,
    entropy_coefficient: float = 0.01,
    chunk: int | None = None,
    mesh: Mesh | None = None,
    checked: bool = False,
) -> Method:
    """Return a search over a candidate's float parameters by meta-gradients.

    Args:
      candidate: any pytree; the start of the search. Only its float leaves change.
      learner: candidate -> algorithm, such as `Plug(lpg, "rule")`; the algorithm has a `likelihood`.
      tasks: what agents learn; a task's `total_timesteps` is their longest life.
      population: agents per task.
      inner_updates: K, the updates that a gradient goes back through.
      learning_rate: Adam's learning rate for the candidate.
      entropy_coefficient: weight of the entropy in the outer loss.
      chunk: agents trained in parallel, one chunk after another. None: all at once, but on a CPU one by one.
      mesh: a mesh of `purerl.devices.sharding`: its axis "seed" divides the agents among devices.
      checked: whether these arguments passed the checks before, which are then skipped.

    Raises:
      InputError: if there is nothing to search, an algorithm has no likelihood, a life is shorter than K updates, or
        the K updates do not fit in memory.
    """
    if not checked:
        check_search(candidate, learner, tasks)
        _check(candidate, learner, tasks, population, inner_updates)
    start, tree = flatten(candidate)
    optimizer = optax.adam(learning_rate)
    agents = [Agents(learner, task, tree, inner_updates, entropy_coefficient) for task in tasks]

    def init(key: Key) -> SearchState:
        lives = tuple(group.unborn(start, population) for group in agents)
        return SearchState(
            center=start, opt_state=strong(optimizer.init(start)), key=key, generation=jnp.int32(0), lives=lives
        )

    def step(state: SearchState) -> tuple[SearchState, Generation]:
        key = jax.random.fold_in(state.key, state.generation)
        centers = jnp.broadcast_to(state.center, (population, start.size))
        lives, reports = [], []
        for i, (group, old) in enumerate(zip(agents, state.lives, strict=True)):
            keys = jax.random.split(jax.random.fold_in(key, i), population)
            new, report = in_chunks(group.live, (centers, old, keys), chunk, mesh)
            lives.append(new)
            reports.append(report)
        report: LifeReport = jax.tree.map(lambda *x: jnp.stack(x), *reports)  # [tasks, P, ...]
        gradient = jnp.mean(report.gradient, axis=(0, 1))
        center, opt_state = apply_gradients(optimizer, gradient, state.opt_state, state.center)
        count = jnp.maximum(jnp.sum((~report.failed).astype(jnp.float32)), 1.0)
        known = lambda x: jnp.sum(jnp.where(report.failed, 0.0, x)) / count
        found = Generation(
            fitness=jnp.stack([life.episode_return for life in lives]),
            failed=report.failed,
            mean=state.center,
            metrics={
                "gradient_norm": known(report.norm),
                "outer_loss": known(report.loss),
                "progress": jnp.mean(report.progress),
            },
        )
        return SearchState(
            center=center, opt_state=opt_state, key=state.key, generation=state.generation + 1, lives=tuple(lives)
        ), found

    return Method(init=init, step=step, tree=tree, center=lambda state: state.center, size=start.size)


class Agents:
    """The agents of one task, as pure functions of a `Life`."""

    def __init__(
        self,
        learner: Learner,
        task: Task,
        tree: Callable[[Array], PyTree],
        inner_updates: int,
        entropy_coefficient: float,
    ):
        self.learner, self.task, self.tree = learner, task, tree
        self.inner_updates, self.entropy_coefficient = inner_updates, entropy_coefficient
        self.config = dataclasses.replace(task.config, total_timesteps=task.total_timesteps)
        self.num_updates = whole_updates(self.config)
        self.baseline: Baseline = baseline(task.env.observation_space, self.config)

    def unborn(self, center: Array, population: int) -> Life:
        """Return lives [P] of zeros, all due to be reset."""
        keys = jax.random.split(jax.random.key(0), population)
        shapes = jax.eval_shape(jax.vmap(self.born, (None, 0)), center, keys)
        return jax.tree.map(zeros, shapes)

    def born(self, center: Array, key: Key) -> Life:
        """Return an agent before its first update, with an age at which it is reset."""
        key_env, key_train, key_end, key_baseline = jax.random.split(key, 4)
        most = max(1, self.num_updates // self.inner_updates)
        return strong(
            Life(
                train=self.trainer(center, key_env).init(key_train),
                baseline=self.baseline.init(key_baseline),
                key=key_env,
                end=self.inner_updates * jax.random.randint(key_end, (), 1, most + 1),
                episode_return=jnp.float32(jnp.nan),
            )
        )

    def trainer(self, center: Array, key: Key) -> CompiledTrainer:
        """Return the trainer of agents that learn by a candidate."""
        env = self.task.env if self.task.redraw is None else self.task.redraw(key, self.task.env)
        return compiled_trainer(self.learner(self.tree(center)), env, self.config)

    def live(self, center: Array, life: Life, key: Key) -> tuple[Life, LifeReport]:
        """Reset an agent if it is due, let it take K updates, and differentiate the result."""
        key_born, key_fresh = jax.random.split(key)
        due = life.train.num_updates >= life.end
        life = jax.lax.cond(due, lambda: self.born(center, key_born), lambda: life)
        progress = life.train.num_updates.astype(jnp.float32) / self.num_updates
        (loss, life), gradient = jax.value_and_grad(self.outer_loss, has_aux=True)(center, life, key_fresh)
        norm = jnp.linalg.norm(gradient)
        failed = ~jnp.isfinite(norm) | ~jnp.isfinite(loss) | has_nan(life.train.agent)
        scale = jnp.where(failed, 0.0, MAX_NORM / jnp.maximum(norm, MAX_NORM))
        report = LifeReport(
            gradient=scale * jnp.where(failed, 0.0, gradient), norm=norm, loss=loss, progress=progress, failed=failed
        )
        return strong(life._replace(end=jnp.where(failed, 0, life.end))), report

    def outer_loss(self, center: Array, life: Life, key: Key) -> tuple[Array, Life]:
        """Return (the loss of the agent after K updates on a new rollout, the life after it)."""
        trainer = self.trainer(center, life.key)

        def inner(now: tuple[TrainState, BaselineState], _: None):
            train, critic = now
            key_rollout, key_update = update_keys(train.key, train.num_updates)
            state, rollout = _constant(trainer.collect(_constant(train), key_rollout))
            critic = self.baseline.learn(critic, rollout)[0]
            agent = self.updated(center, train.agent, key_update, rollout)
            state = state._replace(agent=agent, num_updates=train.num_updates + 1)
            return (state, critic), state.vector.statistics.summary()["episode_return"]

        start = (life.train, life.baseline)
        (train, critic), returns = jax.lax.scan(inner, start, None, self.inner_updates)
        after, rollout = _constant(trainer.collect(_constant(train), convert(key, self.config.prng)))
        critic, advantage = self.baseline.learn(critic, rollout)
        now = _likelihood(trainer.algorithm)(train.agent, rollout)
        loss = -masked.mean(now.log_prob * advantage, rollout.mask)
        loss = loss - self.entropy_coefficient * masked.mean(now.entropy, rollout.mask)
        last = after.vector.statistics.summary()["episode_return"]
        returns = jnp.concatenate([life.episode_return[None], returns, last[None]])
        latest = jnp.max(jnp.where(jnp.isnan(returns), 0, jnp.arange(returns.size)))
        after = after._replace(agent=train.agent)
        return loss, _constant(life._replace(train=after, baseline=critic, episode_return=returns[latest]))

    def updated(self, center: Array, agent: PyTree, key: Key, rollout: Rollout) -> PyTree:
        """Return the agent after an update, which the backward pass computes again."""
        spec = EnvironmentSpec(self.task.env.observation_space, self.task.env.action_space)

        def update(center: Array, agent: PyTree, key: Key, rollout: Rollout) -> PyTree:
            with differentiable_steps(), switches.off("packing"):  # packing goes through bits, which have no derivative
                algorithm = self.learner(self.tree(center))(spec, self.config)
                return algorithm.update(agent, key, _of_agent(algorithm, agent, rollout))[0]

        return jax.checkpoint(update, prevent_cse=False)(center, agent, key, rollout)


def _of_agent(algorithm: Algorithm, agent: PyTree, rollout: Rollout) -> Rollout:
    """Replace a rollout's log-probabilities, if any, by equal ones with the derivative of the agent that acted."""
    if "log_prob" not in rollout.extras:
        return rollout
    now = _likelihood(algorithm)(agent, rollout).log_prob
    log_prob = rollout.extras["log_prob"] + (now - jax.lax.stop_gradient(now))
    return rollout._replace(extras=rollout.extras | {"log_prob": log_prob})


def _likelihood(algorithm: Algorithm) -> Any:
    assert algorithm.likelihood is not None
    return algorithm.likelihood


def _constant(tree: PyTree) -> Any:
    return jax.tree.map(lambda x: x if is_key(x) else jax.lax.stop_gradient(x), tree)


def _check(candidate: PyTree, learner: Learner, tasks: Sequence[Task], population: int, inner_updates: int) -> None:
    """Reject candidates without a meta-gradient, and sizes that do not fit in memory, before anything is compiled."""
    start, tree = flatten(candidate)
    for task in tasks:
        spec = EnvironmentSpec(task.env.observation_space, task.env.action_space)
        algorithm = registry.name_of(task.config)
        if learner(candidate)(spec, task.config).likelihood is None:
            raise InputError(
                f"{algorithm} does not define Algorithm.likelihood, which meta-gradients need; "
                "ppo, a2c, lpg and disco do"
            )
        group = Agents(learner, task, tree, inner_updates, 0.0)
        if inner_updates > group.num_updates:
            raise InputError(
                f"{inner_updates:,} inner updates are more than the {group.num_updates:,} of a lifetime on "
                f"{task.name}: raise total_timesteps {task.total_timesteps:,} or take fewer updates"
            )
        needed = _bytes(group, start, population)
        if needed > memory.free():
            raise InputError(
                f"{inner_updates:,} inner updates of {task.name} need about {needed / 1e9:,.3g} GB, and "
                f"{memory.free() / 1e9:,.3g} GB are free: reduce them, num_envs or the population"
            )


def _bytes(group: Agents, start: Array, population: int) -> int:
    """Estimate the bytes of a generation: all agents twice, and K agents and rollouts for the backward pass."""

    def one(center: Array, key: Key) -> Any:
        life = group.born(center, key)
        return life, group.trainer(center, life.key).collect(life.train, life.train.key)[1]

    life, rollout = jax.eval_shape(one, start, jax.random.key(0))
    side_by_side = 1 if backend.runs_members_in_turn() else population
    held = population * (2 * _nbytes(life) + 8 * start.size)
    return held + side_by_side * group.inner_updates * (_nbytes(life.train.agent) + _nbytes(rollout))


def _nbytes(tree: PyTree) -> int:
    return memory.nbytes([leaf for leaf in jax.tree.leaves(tree) if not is_key(leaf)])
