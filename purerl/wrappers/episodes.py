"""Wrappers of whole episodes: time limits, recordings, parameters that are sampled for each episode."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import agent_groups
from purerl.errors import InputError, kind_of
from purerl.fields import number, pytree, static
from purerl.types import Array, Environment, Key, PyTree, TimeStep
from purerl.wrappers.base import Wrapped, Wrapper


@pytree
class TimeLimit(Wrapper):
    """Truncates an episode after `time_limit` steps, unless it terminates with that step."""

    keeps_state: ClassVar[bool] = True
    time_limit: int = number(default=1000, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[Wrapped, PyTree]:
        """Start an episode at time 0."""
        state, observation = self.env.reset(key)
        return Wrapped(state, jnp.int32(0)), observation

    def step(self, key: Key, state: Wrapped, action: PyTree) -> tuple[Wrapped, TimeStep]:
        """Step and count."""
        inner, step = self.env.step(key, state.inner, action)
        time = state.outer + 1
        return Wrapped(inner, time), step.truncate(time >= self.time_limit)


class EpisodeRecord(NamedTuple):
    """The record of an episode so far."""

    observation: PyTree  # [L + 1, ...], the first one at 0
    action: PyTree  # [L, ...]
    reward: PyTree  # f32[L]; with groups of agents {group: f32[L, n]}
    length: Array  # i32[], steps so far; later entries are zero, and steps beyond L are not recorded


@pytree
class RecordEpisode(Wrapper):
    """Records the first `max_length` steps of the running episode in `state.outer`, an `EpisodeRecord`."""

    keeps_state: ClassVar[bool] = True
    max_length: int = static(default=1000, doc="steps recorded", at_least=1)

    def reset(self, key: Key) -> tuple[Wrapped, PyTree]:
        """Start an empty record."""
        state, observation = self.env.reset(key)
        room = lambda x, extra: jnp.zeros((self.max_length + extra, *x.shape), x.dtype)
        groups = agent_groups.sizes(self.env)
        record = EpisodeRecord(
            observation=jax.tree.map(lambda x: room(x, 1).at[0].set(x), observation),
            action=jax.tree.map(lambda x: room(x, 0), self.env.action_space.zeros()),
            reward={group: room(jnp.zeros(n), 0) for group, n in groups.items()} or room(jnp.float32(0), 0),
            length=jnp.int32(0),
        )
        return Wrapped(state, record), observation

    def step(self, key: Key, state: Wrapped, action: PyTree) -> tuple[Wrapped, TimeStep]:
        """Step and record the step."""
        inner, step = self.env.step(key, state.inner, action)
        record, time = state.outer, state.outer.length
        write = lambda xs, x, at: xs.at[at].set(x, mode="drop")
        record = EpisodeRecord(
            observation=jax.tree.map(lambda xs, x: write(xs, x, time + 1), record.observation, step.observation),
            action=jax.tree.map(lambda xs, x: write(xs, x, time), record.action, action),
            reward=jax.tree.map(lambda xs, x: write(xs, x, time), record.reward, step.reward),
            length=time + 1,
        )
        return Wrapped(inner, record), step


@pytree
class DomainRandomization(Wrapper):
    """Samples the environment's parameters for every episode: domain randomization, or a curriculum.

    `redraw(key, env) -> env` returns the parameters of one episode, such as
    `lambda key, env: dataclasses.replace(env, gravity=jax.random.uniform(key, minval=5.0, maxval=15.0))`.
    Each instance holds the parameters that change in its state, as the dict `state.outer`.

    Source: Tobin et al. (2017), arXiv:1703.06907.
    """

    keeps_state: ClassVar[bool] = True
    redraw: Callable[[Key, Any], Any] = static(doc="(key, env) -> env, the parameters of the next episode")

    def reset(self, key: Key) -> tuple[Wrapped, PyTree]:
        """Sample parameters, then start an episode with them."""
        key_parameters, key_reset = jax.random.split(key)
        env = self.redraw(key_parameters, self.env)
        if jax.tree.structure(env) != jax.tree.structure(self.env):
            raise InputError(f"redraw must return {kind_of(self.env)} with the same fields set")
        changed = {
            name: jnp.asarray(new)
            for (name, old), (_, new) in zip(_named_leaves(self.env), _named_leaves(env), strict=True)
            if new is not old
        }
        state, observation = self._with(changed).reset(key_reset)
        return Wrapped(state, changed), observation

    def step(self, key: Key, state: Wrapped, action: PyTree) -> tuple[Wrapped, TimeStep]:
        """Step with this episode's parameters."""
        inner, step = self._with(state.outer).step(key, state.inner, action)
        return Wrapped(inner, state.outer), step

    def render(self, state: Wrapped) -> np.ndarray:
        """Draw the state with its episode's parameters."""
        return self._with(state.outer).render(state.inner)

    def render_episode(self, states: list[Wrapped]) -> list[np.ndarray]:
        """Draw the states of one episode with its parameters."""
        return self._with(states[0].outer).render_episode([state.inner for state in states])

    def render_text(self, state: Wrapped) -> str:
        """Return the state as text with its episode's parameters."""
        return self._with(state.outer).render_text(state.inner)

    def _with(self, parameters: Mapping[str, Array]) -> Environment:
        leaves = [parameters.get(name, leaf) for name, leaf in _named_leaves(self.env)]
        return jax.tree.unflatten(jax.tree.structure(self.env), leaves)


def _named_leaves(tree: PyTree) -> list[tuple[str, PyTree]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]
