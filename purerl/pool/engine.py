"""The pool as pure functions: B environments that reset on the step after an ending, each from its own seed."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.loop.resets import Resets, take
from purerl.pool import infos
from purerl.prng import fast, is_key, typed
from purerl.types import Array, Environment, Key, PyTree
from purerl.xla import backend
from purerl.xla.trees import where


class Instances(NamedTuple):
    """B environments, independent of one another. All leaves have the leading axis [B]."""

    key: Key  # [B]; the step after n others draws from fold_in(key, n)
    drawn: Array  # i32[B], steps so far, resets among them
    env_state: PyTree
    elapsed_step: Array  # i32[B], of the running episode
    over: Array  # bool[B], whether the next step only resets
    resets: Resets


class PoolStep(NamedTuple):
    """One step of B environments."""

    observation: PyTree  # [B, ...]
    reward: Array  # f32[B]
    terminated: Array  # bool[B]
    truncated: Array  # bool[B]
    started: Array  # bool[B], whether this step only reset
    elapsed_step: Array  # i32[B]
    info: PyTree  # [B, ...] by name


def begin(env: Environment, seeds: np.ndarray) -> Instances:
    """Return environments whose next step resets them.

    Args:
      env: one environment.
      seeds: u32[B].
    """

    def keys_of(seed: Array) -> Key:
        return jax.random.split(fast(jax.random.key(seed)), 2)

    keys = jax.vmap(keys_of)(jnp.asarray(seeds))
    num_envs = len(seeds)
    first = jax.vmap(env.reset)(keys[:, 1])
    zeros, ones = jnp.zeros(num_envs, jnp.int32), jnp.ones(num_envs, jnp.bool_)
    prefetch = backend.branches_are_cheap()  # as "auto" in `purerl.loop.resets`
    resets = Resets(
        key=keys[:, 1],
        episode=zeros - 1,
        prefetched=first if prefetch else None,
        used=ones if prefetch else None,
        pool=None,
    )
    return Instances(key=keys[:, 0], drawn=zeros, env_state=first[0], elapsed_step=zeros, over=ones, resets=resets)


def advance(
    env: Environment, instances: Instances, action: PyTree, restart: Array, strict_limit: int | None
) -> tuple[Instances, PoolStep]:
    """Step every environment, or reset it where its episode is over.

    Args:
      env: one environment.
      instances: B of them.
      action: [B, ...]; ignored where an environment is reset.
      restart: bool[], reset all.
      strict_limit: the step from which an ending counts as truncated, as in EnvPool; None: as the environment has them.
    """
    over = instances.over | restart
    keys = jax.vmap(jax.random.fold_in)(instances.key, instances.drawn)
    stepped, timestep = jax.vmap(env.step)(keys, instances.env_state, action)
    resets, (reset_state, first) = take(jax.vmap(env.reset), instances.resets, over)
    elapsed = jnp.where(over, 0, instances.elapsed_step + 1)
    terminated, truncated = timestep.terminated & ~over, timestep.truncated & ~over
    if strict_limit is not None:
        at_limit = elapsed >= strict_limit
        terminated, truncated = terminated & ~at_limit, truncated | (terminated & at_limit)
    state = where(over, reset_state, stepped)
    info = jax.tree.map(lambda x: where(over, jnp.zeros_like(x), x), dict(timestep.info))
    outputs = PoolStep(
        observation=where(over, first, timestep.observation),
        reward=jnp.where(over, 0.0, timestep.reward),
        terminated=terminated,
        truncated=truncated,
        started=over,
        elapsed_step=elapsed,
        info=info | jax.vmap(partial(infos.of_state, env))(state),
    )
    done = terminated | truncated
    after = Instances(
        key=instances.key,
        drawn=instances.drawn + 1,
        env_state=state,
        elapsed_step=elapsed,
        over=done,
        resets=resets,
    )
    return after, outputs


def advance_some(
    env: Environment, instances: Instances, index: Array, action: PyTree, restart: Array, strict_limit: int | None
) -> tuple[Instances, PoolStep]:
    """Step the environments of `index`, i32[K]; the outputs are in its order."""
    some, outputs = advance(env, jax.tree.map(lambda x: x[index], instances), action, restart, strict_limit)
    return jax.tree.map(lambda x, new: x.at[index].set(new), instances, some), outputs


class HandleState(NamedTuple):
    """The content of a handle."""

    instances: Instances
    outputs: PoolStep  # the last ones of every environment
    queue: Array  # i32[N], the environments that have stepped and were not received, oldest first
    waiting: int  # how many these are


@jax.tree_util.register_pytree_node_class
class Handle:
    """A pool inside jit, as a pytree: scan it, vmap it, shard it.

    It holds the pool's state when the handle is first used, as scripts make a handle before they reset. The number of
    environments that wait to be received is not an array, so that receiving from an empty handle is an error even
    inside jit.
    """

    def __init__(self, take: Callable[[], HandleState]):
        """Hold a function that returns the content at the first use."""
        self._take: Callable[[], HandleState] | None = take
        self._state: HandleState | None = None

    @staticmethod
    def of(state: HandleState) -> "Handle":
        """Return a handle with this content."""
        return Handle(lambda: state)

    @property
    def state(self) -> HandleState:
        """The content, which this property makes at the first use."""
        if self._state is None:
            assert self._take is not None
            self._state, self._take = self._take(), None
        return self._state

    @property
    def waiting(self) -> int:
        """The number of environments that have stepped but were not received."""
        return self.state.waiting

    def tree_flatten(self) -> tuple[tuple[PyTree, ...], int]:
        """Return (the arrays, the number of waiting environments)."""
        return self.state[:3], self.state.waiting

    @classmethod
    def tree_unflatten(cls, waiting: int, parts: tuple[PyTree, ...]) -> "Handle":
        """Undo `tree_flatten`."""
        instances, outputs, queue = parts
        return cls.of(HandleState(instances=instances, outputs=outputs, queue=queue, waiting=waiting))


def take_in(state: HandleState, instances: Instances, outputs: PoolStep, index: Array) -> HandleState:
    """Return the handle's state after the environments of `index`, i32[K], have stepped.

    Raises:
      InputError: if more would wait than there are.
    """
    waiting, num_envs = state.waiting + index.shape[0], state.queue.shape[0]
    if waiting > num_envs:
        raise InputError(
            f"{index.shape[0]} environments are sent to while {state.waiting} of {num_envs} wait to be received: "
            "receive them first"
        )
    return HandleState(
        instances=instances,
        outputs=jax.tree.map(lambda x, new: x.at[index].set(new), state.outputs, outputs),
        queue=state.queue.at[state.waiting : waiting].set(index),
        waiting=waiting,
    )


def give_out(state: HandleState, size: int) -> tuple[HandleState, Array, PoolStep]:
    """Return (the handle's state, i32[size] the environments that stepped first, their outputs).

    Raises:
      InputError: if actions were sent to fewer, while EnvPool would wait forever.
    """
    if state.waiting < size:
        raise InputError(
            f"nothing to receive: {state.waiting} environments were sent to, recv waits for {size}; "
            "call async_reset() before the handle is first used, or send"
        )
    index = state.queue[:size]
    outputs = jax.tree.map(lambda x: x[index], state.outputs)
    return state._replace(queue=jnp.roll(state.queue, -size), waiting=state.waiting - size), index, outputs


class Packed(NamedTuple):
    """A `PoolStep` in a few arrays: copying an array to the host takes as long for ten kilobytes as for one."""

    apart: list[Array]  # the leaves that are not packed
    rows: Array  # u32[R, B], the words of those of which each environment has one number


WIDE = {"b": np.uint32, "u": np.uint32, "i": np.int32, "f": np.float32}  # by the kind of a dtype


def _packs(leaf: PyTree) -> bool:
    return leaf.ndim == 1 and leaf.dtype.kind in WIDE and leaf.dtype.itemsize <= 4


def pack(outputs: PoolStep) -> Packed:
    """Pack outputs into a few arrays, inside jit."""
    leaves = jax.tree.leaves(outputs)
    wide = [leaf.astype(WIDE[leaf.dtype.kind]) for leaf in leaves if _packs(leaf)]
    words = [jax.lax.bitcast_convert_type(leaf, jnp.uint32) for leaf in wide]
    return Packed([leaf for leaf in leaves if not _packs(leaf)], jnp.stack(words))


def unpack(packed: Packed, shapes: PoolStep) -> PoolStep:
    """Return outputs as NumPy arrays that the caller owns.

    Args:
      packed: from `pack`.
      shapes: the outputs' shapes and dtypes, for any B.
    """
    apart, rows = iter(packed.apart), iter(np.array(packed.rows))

    def own(like: PyTree) -> np.ndarray:
        if not _packs(like):
            return np.array(next(apart))
        wide = next(rows).view(WIDE[like.dtype.kind])
        return wide if wide.dtype == like.dtype else wide.astype(like.dtype)

    return jax.tree.map(own, shapes)


def words(instances: Instances) -> Instances:
    """Return instances with their keys as raw words, which are faster to pass to a program than typed keys."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, instances)


def keys(instances: Instances, like: Instances) -> Instances:
    """Return instances with typed keys like those of `like`."""
    return jax.tree.map(lambda x, kind: typed(x, kind) if is_key(kind) else x, instances, like)


def concatenate(parts: list[object]) -> PyTree:
    """Join trees of NumPy or device arrays along their leading axis."""
    xp = np if isinstance(jax.tree.leaves(parts[0])[0], np.ndarray) else jnp
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *xs: xp.concatenate(xs), *parts)
