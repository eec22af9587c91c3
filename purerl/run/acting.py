"""A trained agent that acts outside of training: observation in, action out."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.settings.options import check_seed
from purerl.types import Algorithm, Array, Environment, PyTree
from purerl.xla import trees


class ActingPolicy:
    """A trained agent: `action = policy(observation)`.

    What a recurrent agent remembers stays inside: call `reset` where an episode begins. Observations are single ones or
    batches [N, ...]; every number N is compiled once.
    """

    def __init__(self, algorithm: Algorithm, agent: PyTree, env: Environment, explore: bool = False, seed: int = 0):
        """Begin.

        Args:
          algorithm: what trained it.
          agent: `state.agent` of a `TrainState` (one seed's).
          env: with the spaces that it was trained in.
          explore: act as in training instead of greedily.
          seed: of the random numbers, where there are any.
        """
        check_seed(seed)
        self._algorithm, self.agent = algorithm, jax.tree.map(jnp.asarray, agent)
        self._seen = env.observation_space.struct
        self._key, self._explore, self._time = jax.random.key(seed), explore, 0
        self._act = jax.jit(lambda agent, carry, key, seen: algorithm.act(agent, carry, key, seen, explore)[:2])
        self.reset()

    def reset(self, done: Array | np.ndarray | None = None) -> None:
        """Forget what was seen: an episode begins.

        Args:
          done: bool[N], the members of a batch whose episodes begin; None: all.
        """
        if done is None or self._carry is None:
            self._carry: PyTree = None
            self._num = 0
            return
        self._carry = trees.where(jnp.asarray(done), self._algorithm.initial_carry(self._num), self._carry)

    def __call__(self, observation: PyTree) -> PyTree:
        """Return the action of an observation, or [N, ...] those of a batch.

        Raises:
          InputError: if it is not as the observation space says, or a batch of another size comes without `reset`.
        """
        batch, num = self._batched(observation)
        if self._carry is None or (num != self._num and not jax.tree.leaves(self._carry)):
            self._carry = self._algorithm.initial_carry(num)
        elif num != self._num:
            raise InputError(f"the policy remembers {self._num} episodes; reset() before it sees {num}")
        key = jax.random.fold_in(self._key, self._time)
        action, self._carry = self._act(self.agent, self._carry, key, batch)
        self._num, self._time = num, self._time + 1
        return action if self._is_batch else jax.tree.map(lambda x: x[0], action)

    def _batched(self, observation: PyTree) -> tuple[PyTree, int]:
        """Return (the observation as a batch, its size)."""
        wanted, structure = jax.tree.flatten(self._seen)
        if jax.tree.structure(observation) != structure:
            raise InputError(f"the observation is a {type(observation).__name__}; it must be {self._describe()}")
        given = [np.asarray(x) if not isinstance(x, jax.Array) else x for x in jax.tree.leaves(observation)]
        more = {x.ndim - like.ndim for x, like in zip(given, wanted, strict=True)}
        fits = all(x.shape[x.ndim - like.ndim :] == like.shape for x, like in zip(given, wanted, strict=True))
        if not fits or len(more) != 1 or not more <= {0, 1} or len({x.shape[0] for x in given if more == {1}}) > 1:
            shapes = ", ".join(str(list(x.shape)) for x in given)
            raise InputError(f"the observation has shape {shapes}; it must be {self._describe()}, or a batch [N, ...]")
        self._is_batch = more == {1}
        arrays = [jnp.asarray(x, like.dtype) for x, like in zip(given, wanted, strict=True)]
        arrays = arrays if self._is_batch else [x[None] for x in arrays]
        return structure.unflatten(arrays), arrays[0].shape[0]

    def _describe(self) -> str:
        name = lambda path, x: f"{jax.tree_util.keystr(path, simple=True, separator='.')} {x.dtype}{list(x.shape)}"
        return ", ".join(name(path, x).strip() for path, x in jax.tree.leaves_with_path(self._seen))
