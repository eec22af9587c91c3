"""The base of all pools: sending, receiving, and tracking which environments step."""

import dataclasses
import warnings
from collections import deque
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.pool import engine
from purerl.pool.config import PoolSpec
from purerl.pool.engine import Handle, HandleState, Packed, PoolStep
from purerl.types import Array, PyTree
from purerl.xla import backend


class Pool:
    """Environments that `send` and `recv` step, all of them or some, as in EnvPool."""

    def __init__(self, spec: PoolSpec):
        """Make the environments; the first step of each starts an episode."""
        self._pool_spec, self._settings = spec, spec.settings
        settings, env = spec.settings, spec.env
        strict = settings.max_episode_steps if settings.strict_envpool else None
        self._ids = np.arange(settings.num_envs, dtype=np.int32)
        self._action_struct = env.action_space.struct
        begin = partial(engine.begin, env)
        self._typed = jax.eval_shape(begin, jax.ShapeDtypeStruct(self._ids.shape, np.uint32))
        advance = partial(engine.advance, env, strict_limit=strict)
        some = partial(engine.advance_some, env, strict_limit=strict)
        self._shapes = jax.eval_shape(advance, self._typed, self._no_action(len(self)), np.bool_(False))[1]
        pack = engine.pack if settings.output == "numpy" else lambda outputs: outputs
        self._begin = backend.jit(lambda seeds: engine.words(begin(seeds)))
        in_place = partial(backend.jit, donate_argnums=0)
        self._all = in_place(partial(_advance, advance, pack, self._typed))
        self._some = in_place(partial(_advance, some, pack, self._typed))
        self._restart(settings.seeds)

    def _restart(self, seeds: np.ndarray) -> None:
        self._instances = self._begin((seeds % 2**32).astype(np.uint32))  # with the words of their keys
        self._busy = np.zeros(len(self), np.bool_)
        self._stepped: deque[tuple[np.ndarray, PoolStep | Packed]] = deque()  # what `recv` has not returned yet

    def __len__(self) -> int:
        return self._settings.num_envs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._pool_spec!r})"

    def __str__(self) -> str:  # gymnasium.Env's reads the spec of one environment that Gymnasium registered
        return repr(self)

    @property
    def config(self) -> dict[str, object]:
        """The settings, {name: value}."""
        return dataclasses.asdict(self._settings)

    @property
    def all_env_ids(self) -> np.ndarray:
        """i32[num_envs]: 0, 1, 2, ..."""
        return self._ids.copy()

    @property
    def is_async(self) -> bool:
        """Whether `recv` returns fewer environments than the pool has."""
        return self._settings.batch_size != self._settings.num_envs

    def send(self, action: PyTree, env_id: object = None) -> None:
        """Step environments, without waiting for them.

        Args:
          action: [K, ...], NumPy or JAX; or {"action": ..., "env_id": ...}.
          env_id: i32[K], which ones; all if None.

        Raises:
          InputError: if one of them still steps, does not exist, is named twice, or the count of actions is wrong.
        """
        if isinstance(action, dict) and "env_id" in action and env_id is None:
            env_id, action = action["env_id"], action["action"]
        self._dispatch(self._ids_of(env_id), action, restart=False)

    def async_reset(self) -> None:
        """Start an episode in every environment, without waiting; `recv` returns their first observations."""
        self._dispatch(self._ids, None, restart=True)

    def recv(self, reset: bool = False, return_info: bool = True) -> Any:
        """Return the environments that stepped first: `batch_size` of them, or all that actions were sent to.

        Raises:
          InputError: if actions were sent to too few of them, while EnvPool would wait forever.
        """
        ids, outputs = self._receive()
        return self._present(ids, outputs, reset)

    def step(self, action: PyTree, env_id: Any = None) -> Any:
        """Send and receive."""
        self.send(action, env_id)
        return self.recv()

    def seed(self, seed: object = None) -> None:
        """Warn, as EnvPool does: seeds are set when a pool is made, or by `reset(seed=...)` with Gymnasium's types."""
        warnings.warn("seed() has no effect: give seed= when the pool is made", UserWarning, stacklevel=2)

    def reset(self, env_id: Any = None) -> Any:
        """Start an episode in these environments, i32[K], or in all, and return the first observations."""
        self._dispatch(self._ids_of(env_id), None, restart=True)
        return self.recv(reset=True)

    def render(self, env_ids: Any = None, camera_id: int | None = None) -> np.ndarray:
        """Return pictures of environments in their current states, u8[K, height, width, 3].

        Raises:
          InputError: without render_mode="rgb_array" when the pool was made, or if the environment has no picture.
        """
        if self._settings.render_mode is None:
            raise InputError("render needs render_mode='rgb_array' when the pool is made")
        if camera_id not in (None, -1):
            raise InputError(f"camera_id is {camera_id}; environments of ours have one view")
        ids = [self._settings.render_env_id] if env_ids is None else np.atleast_1d(env_ids)
        states = [jax.tree.map(lambda x, i=i: np.asarray(x[i]), self._instances.env_state) for i in ids]
        return np.stack([self._pool_spec.env.render(state) for state in states])

    def xla(self) -> tuple[Handle, Any, Any, Any]:
        """Return (handle, recv, send, step), for use inside jit.

        The handle is a pytree that holds the pool's state when the handle is first used: unlike EnvPool's it can be
        vmapped, sharded, saved and gone back to. `recv(handle) -> (handle, results)`;
        `send(handle, action, env_id=None) -> handle`; `step(handle, action, env_id=None) -> (handle, results)`.
        Received are always `batch_size` environments. `recv` and `send` raise InputError, when traced, if too few
        environments wait to be received or too many.
        """
        env, settings = self._pool_spec.env, self._settings
        strict = settings.max_episode_steps if settings.strict_envpool else None
        everyone = jnp.arange(len(self), dtype=jnp.int32)

        @jax.jit  # or a script that calls it from Python would wait for each operation
        def send(handle: Handle, action: PyTree, env_id: Any = None) -> Handle:
            state, go = handle.state, jnp.bool_(False)
            if env_id is None:
                after, outputs = engine.advance(env, state.instances, action, go, strict)
            else:
                after, outputs = engine.advance_some(
                    env, state.instances, index=env_id, action=action, restart=go, strict_limit=strict
                )
            return Handle.of(engine.take_in(state, after, outputs, everyone if env_id is None else env_id))

        @jax.jit
        def recv(handle: Handle) -> tuple[Handle, Any]:
            state, ids, outputs = engine.give_out(handle.state, settings.batch_size)
            return Handle.of(state), self._present(ids, outputs, False)

        def step(handle: Handle, action: PyTree, env_id: Any = None) -> tuple[Handle, Any]:
            return recv(send(handle, action, env_id))

        return Handle(self._held), recv, send, step

    def _held(self) -> HandleState:
        outputs = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), self._shapes)
        instances = jax.tree.map(jnp.copy, self._instances)  # the pool's are donated when it steps
        instances = engine.keys(instances, self._typed)
        state = HandleState(instances=instances, outputs=outputs, queue=jnp.zeros(len(self), jnp.int32), waiting=0)
        for ids, found in self._stepped:
            state = engine.take_in(state, instances, self._out(found), jnp.asarray(ids))
        return state

    def _dispatch(self, ids: np.ndarray, action: PyTree, restart: bool) -> None:
        busy = self._busy[ids]
        if busy.any():
            raise InputError(
                f"environment {ids[busy][0]} still steps: receive its result before sending to it again; allowed now: "
                f"{_listed(np.flatnonzero(~self._busy))}"
            )
        action = self._no_action(len(ids)) if restart else self._checked(action, len(ids))
        self._busy[ids] = True
        if ids is self._ids or np.array_equal(ids, self._ids):
            self._instances, outputs = self._all(self._instances, action, np.bool_(restart))
        else:
            self._instances, outputs = self._some(self._instances, ids, action, np.bool_(restart))
        self._stepped.append((ids, outputs))

    def _receive(self) -> tuple[np.ndarray, PoolStep]:
        waiting = sum(len(ids) for ids, _ in self._stepped)
        size = self._settings.batch_size if self.is_async else waiting
        if waiting < max(size, 1):
            raise InputError(f"nothing to receive: {waiting} environments were sent to, recv waits for {max(size, 1)}")
        received: list[tuple[np.ndarray, PoolStep]] = []
        while size:
            ids, outputs = self._stepped.popleft()
            outputs = self._out(outputs)
            if len(ids) > size:
                rest = jax.tree.map(lambda x, n=size: x[n:], outputs)
                self._stepped.appendleft((ids[size:], rest))
                ids, outputs = ids[:size], jax.tree.map(lambda x, n=size: x[:n], outputs)
            received.append((ids, outputs))
            size -= len(ids)
        ids = np.concatenate([ids for ids, _ in received])
        self._busy[ids] = False
        return ids, engine.concatenate([outputs for _, outputs in received])

    def _ids_of(self, env_id: object) -> np.ndarray:
        if env_id is None:
            return self._ids
        ids = np.atleast_1d(np.asarray(env_id)).astype(np.int32)
        if ids.ndim != 1 or ids.size == 0 or ids.min() < 0 or ids.max() >= len(self):
            raise InputError(f"env_id is {np.asarray(env_id).tolist()}; allowed: a list out of 0 .. {len(self) - 1}")
        if len(set(ids.tolist())) < len(ids):
            raise InputError(f"env_id {ids.tolist()} names an environment twice")
        return ids

    def _no_action(self, count: int) -> PyTree:
        return jax.tree.map(lambda s: np.zeros((count, *s.shape), s.dtype), self._action_struct)

    def _checked(self, action: PyTree, count: int) -> PyTree:
        """Return the actions with the dtype that the environment needs.

        Raises:
          InputError: if their shape is another.
        """

        def check(struct: jax.ShapeDtypeStruct, given: object) -> Array | np.ndarray:
            given = given if isinstance(given, jax.Array) else np.asarray(given)
            if given.shape != (count, *struct.shape):
                raise InputError(
                    f"actions have shape {list(given.shape)}; {count} environments take {[count, *struct.shape]}"
                )
            return given if given.dtype == struct.dtype else given.astype(struct.dtype)

        return jax.tree.map(check, self._action_struct, action)

    def _out(self, outputs: PoolStep | Packed) -> PoolStep:
        """Return outputs in the requested form; the caller may write to NumPy arrays, as with EnvPool."""
        return engine.unpack(outputs, self._shapes) if isinstance(outputs, Packed) else outputs

    def _present(self, ids: object, outputs: PoolStep, reset: bool) -> Any:
        raise NotImplementedError


def info_of(ids: object, outputs: PoolStep) -> dict[str, object]:
    """Return EnvPool's info."""
    extra = {name: value for name, value in outputs.info.items() if name not in ("env_id", "players", "elapsed_step")}
    return {"env_id": ids, "players": {"env_id": ids}, **extra, "elapsed_step": outputs.elapsed_step}


def _advance(advance: Any, pack: Any, typed: Any, instances: PyTree, *args: PyTree) -> PyTree:
    instances, outputs = advance(engine.keys(instances, typed), *args)
    return engine.words(instances), pack(outputs)


def _listed(ids: np.ndarray, limit: int = 8) -> str:
    shown = ", ".join(str(i) for i in ids[:limit])
    return (shown or "none") + (", ..." if len(ids) > limit else "")
