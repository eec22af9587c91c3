"""The contract of trainers: a run as functions of its state."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from purerl.host_environment import HostSource
from purerl.loop.evaluate import MAX_STEPS, Evaluation
from purerl.loop.metrics import TrainMetrics
from purerl.loop.resets import Resets
from purerl.loop.vector import VectorState
from purerl.types import Algorithm, AlgorithmFactory, Array, Config, Environment, Key, PyTree


class TrainState(NamedTuple):
    """A run: arrays only, so it can be vmapped, sharded and saved."""

    agent: PyTree
    vector: VectorState  # the environments, and the statistics of the episodes that ended in the last update
    observation: PyTree  # [B, ...], to act on next; () on the host
    carry: PyTree  # [B, ...]; on the host by group
    key: Key  # the run's, of the config's generator; update n uses fold_in(key, n)
    num_updates: Array  # i32[]


_YES: Any = True
_NO: Any = False
PER_ENVIRONMENT = TrainState(  # which parts of a state have a leading axis of environments
    agent=_NO,
    vector=VectorState(
        env_state=_YES,
        episode_return=_YES,
        group_return=_YES,
        episode_length=_YES,
        statistics=_YES,
        resets=Resets(key=_YES, episode=_YES, prefetched=_YES, used=_YES, pool=_NO),
    ),
    observation=_YES,
    carry=_YES,
    key=_NO,
    num_updates=_NO,
)


class Policy(NamedTuple):
    """One of the policies that a trainer trains."""

    factory: AlgorithmFactory
    config: Any  # that its algorithm is made by
    select: Callable[[PyTree], PyTree]  # the trainer's agent -> this policy's


class Trainer(Protocol):
    """A run as functions of its state, whether its loop is compiled or runs in Python."""

    @property
    def pure(self) -> bool:
        """Whether `init` and `step` are pure functions, which a run compiles."""
        ...

    @property
    def policies(self) -> Mapping[str, Policy]:
        """{name: policy}; a single policy has the name ""."""
        ...

    def player(self, agent: PyTree) -> tuple[Algorithm, PyTree]:
        """Return the (algorithm, agent) that plays, without the opponents that the trainer's agent may also hold."""
        ...

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, for the environment's spaces."""
        ...

    @property
    def environment(self) -> Environment | HostSource:
        """One environment, or the source of host environments."""
        ...

    def init(self, key: Key) -> TrainState:
        """Return the state of a run before its first update; `key` determines the whole run."""
        ...

    def step(self, state: TrainState) -> tuple[TrainState, TrainMetrics]:
        """Collect a rollout [T, B] and update the agent: return the next state and the update's metrics."""
        ...

    def template(self, key: Key) -> tuple[TrainState, TrainMetrics]:
        """Return the shapes and dtypes of `init(key)` and of the metrics that `step` returns."""
        ...

    def evaluate(
        self, agent: PyTree, key: Key, num_episodes: int = 128, max_steps: int = MAX_STEPS, explore: bool = False
    ) -> Evaluation:
        """Play complete episodes; see `purerl.evaluate`."""
        ...

    def close(self) -> None:
        """Release threads and environments; does nothing for the compiled loop."""
        ...


class MakeTrainer(Protocol):
    """A function that makes the trainer of an algorithm on an environment."""

    def __call__(self, algorithm: AlgorithmFactory, env: Environment, config: Config, /) -> Trainer:
        """Return the trainer.

        Args:
          algorithm: (spec, config) -> Algorithm.
          env: one environment; its fields may be traced.
          config: the algorithm's settings; its numbers may be traced.
        """
        ...
