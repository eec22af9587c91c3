"""A trained agent that acts outside of training: observation in, action out."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, kind_of
from purerl.host_environment import HostSource
from purerl.reporting.render import PlayPolicy, agent_policy
from purerl.settings.options import check_seed
from purerl.spaces import element, form
from purerl.types import Algorithm, Array, Environment, PyTree
from purerl.xla import trees


class ActingPolicy:
    """A trained agent: `action = policy(observation)`.

    It keeps the state of a recurrent agent: call `reset` at the start of an episode. Observations are single ones or
    batches [N, ...] as the environment returns them: arrays, numbers, lists, and tuples and dicts of those; every
    number N is compiled once. Actions are in the environment's format, in NumPy: a NumPy integer for a Discrete space.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        agent: PyTree,
        env: Environment | HostSource,
        explore: bool = False,
        seed: int = 0,
    ):
        """Begin.

        Args:
          algorithm: what trained it.
          agent: `state.agent` of a `TrainState` (one seed's).
          env: with the spaces that it was trained in.
          explore: act as in training instead of greedily.
          seed: the seed of the random numbers, if there are any.
        """
        check_seed(seed)
        self._algorithm, self.agent = algorithm, jax.tree.map(jnp.asarray, agent)
        self._env, self._space, self._seen = env, env.observation_space, env.observation_space.struct
        self._key, self._explore, self._time = jax.random.key(seed), explore, 0
        self._act = jax.jit(lambda agent, carry, key, seen: algorithm.act(agent, carry, key, seen, explore)[:2])
        self.reset()

    def reset(self, done: Array | np.ndarray | None = None) -> None:
        """Start a new episode: forget the observations so far.

        Args:
          done: bool[N], the members of a batch whose episodes start; None: all.
        """
        if done is None or self._carry is None:
            self._carry: PyTree = None
            self._num = 0
            return
        self._carry = trees.where(jnp.asarray(done), self._algorithm.initial_carry(self._num), self._carry)

    def __call__(self, observation: PyTree) -> PyTree:
        """Return the action for an observation, or the actions for a batch [N, ...].

        Raises:
          InputError: if it does not fit the observation space, or the batch size changes without `reset`.
        """
        batch, num = self._batched(observation)
        if self._carry is None or (num != self._num and not jax.tree.leaves(self._carry)):
            self._carry = self._algorithm.initial_carry(num)
        elif num != self._num:
            raise InputError(f"the policy remembers {self._num} episodes; call reset() before you pass {num}")
        key = jax.random.fold_in(self._key, self._time)
        action, self._carry = self._act(self.agent, self._carry, key, batch)
        self._num, self._time = num, self._time + 1
        action = jax.device_get(action)
        action = self._env.sent(action) if isinstance(self._env, HostSource) else action
        return action if self._is_batch else jax.tree.map(lambda x: x[0], action)

    def in_program(self, env: Environment) -> PlayPolicy:
        """Return the policy for a program that plays an environment of the same spaces, as `purerl.play` does.

        Raises:
          InputError: if its spaces differ.
        """
        check_same_spaces(self._env, env, "the policy was trained on an environment")
        return agent_policy(self._algorithm, self.agent, self._explore)

    def _batched(self, observation: PyTree) -> tuple[PyTree, int]:
        """Return (the observation as a batch, its size)."""
        wanted, structure = jax.tree.flatten(self._seen)
        try:
            observation = element(self._space, observation)
        except ValueError:
            raise InputError(f"the observation is {kind_of(observation)}; it must be {self._describe()}") from None
        given, more = self._fitting(observation)
        if len(more) != 1 or not more <= {0, 1} or len({x.shape[0] for x in given if more == {1}}) > 1:
            shapes = ", ".join(str(list(x.shape)) for x in given)
            raise InputError(f"the observation has shape {shapes}; it must be {self._describe()}, or a batch [N, ...]")
        self._is_batch = more == {1}
        arrays = [jnp.asarray(x, like.dtype) for x, like in zip(given, wanted, strict=True)]
        arrays = arrays if self._is_batch else [x[None] for x in arrays]
        return structure.unflatten(arrays), arrays[0].shape[0]

    def _fitting(self, observation: PyTree) -> tuple[list[Array | np.ndarray], set[int]]:
        """Return (the arrays of an observation, the number of leading axes before the space's; none if they differ)."""
        wanted = jax.tree.leaves(self._seen)

        def axes(given: PyTree) -> set[int]:
            pairs = list(zip(jax.tree.leaves(given), wanted, strict=True))
            fits = all(x.shape[max(x.ndim - like.ndim, 0) :] == like.shape for x, like in pairs)
            return {x.ndim - like.ndim for x, like in pairs} if fits else set()

        if isinstance(self._env, HostSource):  # which may show it otherwise, as Atari does its frames
            prepared = self._env.prepare(observation)
            if axes(prepared):
                return jax.tree.leaves(prepared), axes(prepared)
        return jax.tree.leaves(observation), axes(observation)

    def _describe(self) -> str:
        name = lambda path, x: f"{jax.tree_util.keystr(path, simple=True, separator='.')} {x.dtype}{list(x.shape)}"
        return ", ".join(name(path, x).strip() for path, x in jax.tree.leaves_with_path(self._seen))


def check_same_spaces(trained: Environment | HostSource, env: Environment | HostSource, what: str) -> None:
    """Raise an `InputError` that begins with `what` if an environment's spaces differ from those of training."""
    for space in ("observation_space", "action_space"):
        before, now = getattr(trained, space), getattr(env, space)
        if form(before) != form(now):
            raise InputError(f"{what}, which has different spaces: {space} {before}, here {now}")
