"""The contract of a replay: four pure functions of a state that is a pytree of arrays."""

from typing import NamedTuple, Protocol

from purerl.types import Array, Key, PyTree, Rollout


class InitReplay(Protocol):
    """`Replay.init`."""

    def __call__(self) -> PyTree:
        """Return the empty state."""
        ...


class AddToReplay(Protocol):
    """`Replay.add`."""

    def __call__(self, state: PyTree, rollout: Rollout, /) -> PyTree:
        """Return the state with a rollout [T, B]; steps outside its `mask` do not count."""
        ...


class SampleReplay(Protocol):
    """`Replay.sample`."""

    def __call__(self, state: PyTree, key: Key, /) -> PyTree:
        """Return a batch of N samples.

        It is what the algorithm learns from, such as `Transitions` [N, ...] or `Sequences` [L, N, ...], with a field
        `weight`, f32[N]: the weight of each sample's loss. A sample of weight 0 does not count.
        """
        ...


class UpdateReplay(Protocol):
    """`Replay.update`."""

    def __call__(self, state: PyTree, batch: PyTree, priority: Array, /) -> PyTree:
        """Return the state after learning from a batch.

        Args:
          state: the one that the batch was sampled from.
          batch: from `sample`.
          priority: f32[N], such as |TD error|; it is ignored if the sample's weight is 0.
        """
        ...


class Replay(NamedTuple):
    """A replay; a user's own can replace it."""

    init: InitReplay  # () -> state
    add: AddToReplay  # (state, rollout) -> state
    sample: SampleReplay  # (state, key) -> batch
    update: UpdateReplay  # (state, batch, priority) -> state
