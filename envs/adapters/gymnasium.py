"""Any registered Gymnasium environment, as `gymnasium/NAME`, by Gymnasium's own vector environments.

They are stepped one after another, or in parallel in as many processes as there are cores.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import Any

import gymnasium
import jax
import numpy as np

from purerl.envs.adapters import host_common
from purerl.errors import InputError, unknown
from purerl.host_environment import HostEnvironment, HostSource, HostStep
from purerl.spaces import Space
from purerl.trust.names import CurrentFolder
from purerl.types import Key, PyTree


def make(name: str, **parameters: Any) -> HostSource:
    """Return a source of Gymnasium's environment `name`; `parameters` are passed to `gymnasium.make`.

    Raises:
      InputError: for an unknown id or parameter.
    """
    if name not in gymnasium.registry and ":" not in name:
        raise unknown("environment of gymnasium", name, names())
    return GymnasiumSource(name, parameters)


def names() -> list[str]:
    """Return the registered ids."""
    return sorted(gymnasium.registry)


class GymnasiumSource(HostSource):
    """A registered environment."""

    def __init__(self, name: str, parameters: dict[str, Any]):
        """Make one environment to inspect its spaces."""
        self.id, self._name, self.parameters = f"gymnasium/{name}", name, dict(parameters)
        try:
            env = gymnasium.make(name, **parameters)
        except (ModuleNotFoundError, gymnasium.error.DependencyNotInstalled) as error:
            missing = getattr(error, "name", None) or str(error).partition(" is not installed")[0]
            raise InputError(f"{self.id} needs {missing}: pip install 'purerl[gymnasium]'") from None
        except Exception as error:  # whatever a third party's constructor raises
            raise InputError(f"{self.id} cannot be made: {type(error).__name__}: {error}") from None
        self._observed, self._acted = env.observation_space, env.action_space
        self._observation_space = host_common.from_gymnasium(self._observed, self.id)
        self._action_space = host_common.from_gymnasium(self._acted, self.id)
        env.close()

    @property
    def observation_space(self) -> Space:
        """The environment's observation space, with 32-bit numbers."""
        return self._observation_space

    @property
    def action_space(self) -> Space:
        """The environment's action space."""
        return self._action_space

    def prepare(self, observation: PyTree) -> PyTree:
        """Convert observations to the space's names and dtypes."""
        return host_common.received(self._observed, observation)

    def sent(self, action: PyTree) -> PyTree:
        """Convert actions to the environment's tuples, starts and dtypes, inside its own bounds."""
        return host_common.sent(self._acted, action)

    def open(self, num_envs: int, seed: int, parallel: bool, evaluation: bool = False) -> HostEnvironment:
        """Make a vector of environments."""
        spec = gymnasium.registry.get(self._name)  # a class from a notebook has no name in another process
        name = self._name if spec is None or not callable(spec.entry_point) else spec
        several = functools.partial(_Several, CurrentFolder.installed(), name, self.parameters)
        shares = processes(num_envs, _cores()) if parallel else 1
        if shares == 1:
            return _GymnasiumBatch(several(range(num_envs)).vector, num_envs, seed, self.sent)
        # This process reports an error of another one in one line. Forking while JAX's threads run may hang.
        told = r"(?s).*(Worker-\d|Raising the last exception|Traceback \(most recent)"
        warnings.filterwarnings("ignore", told, UserWarning)
        numbers = np.arange(num_envs).reshape(shares, -1)
        makers = [functools.partial(several, part, os.getpid()) for part in numbers.tolist()]
        try:
            with _signals_held():
                return _GymnasiumBatch(_Processes(makers, numbers.shape), num_envs, seed, self.sent)
        except (EOFError, ConnectionError):
            raise InputError(
                f"{self.id}: the processes of its environments ended at once; a script must train "
                "and evaluate under if __name__ == '__main__':, and a module that they can import must register them"
            ) from None


def processes(num_envs: int, cores: int) -> int:
    """Return the number of processes for the environments: equal shares, on all cores if that is possible."""
    return next(n for n in range(min(num_envs, cores), num_envs + 1) if num_envs % n == 0)


SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # reach a whole group of processes; the run decides about them


def _numbers() -> list[int]:
    return [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Start processes that leave `SIGNALS` to this one, because they inherit the blocked signals."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would unblock them as it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _numbers())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Numbered(gymnasium.Wrapper):
    """Adds the environment's number to an exception."""

    def __init__(self, env: Any, env_id: int):
        super().__init__(env)
        self.env_id = env_id

    def step(self, action: PyTree) -> PyTree:
        try:
            return self.env.step(action)
        except Exception as error:
            error.env_id = self.env_id  # type: ignore[attr-defined]
            raise


class _Several(gymnasium.Env):
    """Several environments in turn, which Gymnasium's vector of processes sees as one environment."""

    def __init__(
        self,
        finders: tuple[CurrentFolder, ...],
        name: Any,
        parameters: dict[str, Any],
        numbers: Sequence[int],
        opened_by: int | None = None,
    ):
        """Make the environments with these numbers.

        Args:
          finders: finders of modules in the current folder; unpickled before `name`, they work in another process.
          name: an id, or a spec.
          parameters: the arguments of `gymnasium.make`.
          numbers: which of all environments to make.
          opened_by: the process that asks for them; they run in a process of their own unless it is this one.
        """
        if opened_by not in (None, os.getpid()):
            for number in _numbers():
                signal.signal(number, signal.SIG_IGN)
        make = lambda number: _Numbered(gymnasium.make(name, **parameters), number)
        self.vector = gymnasium.vector.SyncVectorEnv([functools.partial(make, number) for number in numbers])
        self.observation_space, self.action_space = self.vector.observation_space, self.vector.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> PyTree:
        return self.vector.reset(seed=seed, options=options)[0], {}

    def step(self, action: PyTree) -> PyTree:
        return *self.vector.step(action)[:4], {}

    def close(self) -> None:
        self.vector.close()


class _Processes:
    """Environments in equal shares on several processes, as one vector."""

    def __init__(self, makers: list[Callable[[], _Several]], shape: tuple[int, ...]):
        """Start a process for each maker; `shape`: how many there are, and environments of each."""
        disabled = gymnasium.vector.AutoresetMode.DISABLED
        context = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"  # on Windows
        self._vector = gymnasium.vector.AsyncVectorEnv(makers, context=context, autoreset_mode=disabled)
        self._shape = shape

    def reset(self, seed: int | None) -> PyTree:
        shares, each = self._shape
        seeds = [None if seed is None else seed + each * i for i in range(shares)]
        return self._joined(self._answer(lambda: self._vector.reset(seed=seeds))[0]), {}

    def step(self, action: np.ndarray) -> tuple[PyTree, ...]:
        action = jax.tree.map(lambda x: x.reshape(*self._shape, *x.shape[1:]), action)
        return *self._joined(self._answer(lambda: self._vector.step(action))[:4]), {}

    def _answer(self, ask: Callable[[], tuple[PyTree, ...]]) -> tuple[PyTree, ...]:
        try:
            return ask()
        except (EOFError, ConnectionError):
            raise ChildProcessError(self._death()) from None

    def _death(self) -> str:
        """Return how a process died, and end the others, which can no longer be stepped."""
        last = time.monotonic() + 1.0
        while all(process.is_alive() for process in self._vector.processes) and time.monotonic() < last:
            time.sleep(0.01)
        codes = [process.exitcode for process in self._vector.processes if process.exitcode is not None]
        self.abandon()
        return f"its process died (exit code {codes[0]})" if codes else "the connection to its process was closed"

    def close(self) -> None:
        for process in self._vector.processes:  # they ignore SIGTERM
            process.kill()
        self._vector.close(terminate=True)

    def abandon(self) -> None:
        self._vector.closed = True  # or it would wait for the step when it is collected
        for process in self._vector.processes:
            process.kill()

    def _joined(self, values: object) -> PyTree:
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), values)


class _GymnasiumBatch(host_common.Followed):
    def __init__(self, vector: Any, num_envs: int, seed: int, send: Callable[[Any], Any]):
        super().__init__(vector, lambda: np.zeros(num_envs, np.bool_), send)
        self._seed: int | None = seed

    def reset(self, key: Key | None) -> PyTree:
        observation, _ = self._vector.reset(seed=self._seed)
        self._seed = None  # a second reset continues the same random numbers
        self._followed = self._begin()
        return observation

    def step(self, action: np.ndarray, keys: PyTree, t: int) -> HostStep:
        try:
            return super().step(action, keys, t)
        except Exception as error:  # an error of a process is wrapped in another of its kind
            inner = error.args[0] if error.args else None
            raise (inner if isinstance(inner, Exception) else error) from None

    def abandon(self) -> None:
        if isinstance(self._vector, _Processes):
            self._vector.abandon()
