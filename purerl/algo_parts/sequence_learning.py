"""Learning from replayed sequences: the values of a recurrent Q network along them, and of what followed each step."""

import jax
import jax.numpy as jnp

from purerl.algo_parts.off_policy import OffPolicyConfig
from purerl.errors import InputError
from purerl.networks.q_networks import RecurrentQNetwork
from purerl.replay.sequences import Sequences, SequenceSizes
from purerl.types import Array, PyTree
from purerl.xla import trees


def sequence_sizes(config: OffPolicyConfig, burn_in: int, train: int, what: str) -> SequenceSizes:
    """Return the sizes of an algorithm's sequences: chunks of a rollout each.

    Args:
      config: the replay's and the rollout's settings.
      burn_in, train: steps of a sequence that renew the carry, and that are learned from.
      what: the algorithm, for the error.

    Raises:
      InputError: if a batch is larger than the sequences that are stored when learning starts.
    """
    sizes = SequenceSizes(
        capacity=config.replay_capacity,
        num_envs=config.num_envs,
        chunk=config.rollout_length,
        burn_in=burn_in,
        train=train,
    )
    stored = (config.learning_starts // config.steps_per_update - sizes.length + 1) * sizes.num_envs
    if config.batch_size > stored:
        raise InputError(
            f"{what}: batch_size {config.batch_size} is larger than the {max(stored, 0)} sequences that are stored "
            f"when learning starts, after learning_starts {config.learning_starts} steps"
        )
    return sizes


def after_burn_in(batch: Sequences, burn_in: int) -> Sequences:
    """Return the sequences without their first `burn_in` steps; the carry stays that of the first of all."""
    late = lambda tree: jax.tree.map(lambda x: x[burn_in:], tree)
    return batch._replace(
        observation=late(batch.observation),
        action=late(batch.action),
        reward=late(batch.reward),
        terminated=late(batch.terminated),
        truncated=late(batch.truncated),
        mask=late(batch.mask),
    )


def successors_held(batch: Sequences, burn_in: int) -> Array:
    """Return bool[L, N], the steps after the burn-in whose true successor the sequence holds, or that need none."""
    env = jnp.arange(batch.truncated.shape[1])
    return (~batch.truncated[burn_in:]).at[batch.follows, env].set(True, mode="drop")


def sequence_values(q: RecurrentQNetwork, params: PyTree, batch: Sequences, burn_in: int) -> tuple[Array, Array]:
    """Return Q along sequences, after `burn_in` steps that renew the carry and are not learned from.

    Args:
      q: the network.
      params: its parameters.
      batch: of burn_in + L steps.
      burn_in: steps.

    Returns:
      (Q of every step f32[L, N, n], Q of its true successor f32[L, N, n], where `successors_held`).
    """
    done, carry, late = batch.terminated | batch.truncated, batch.carry, after_burn_in(batch, burn_in)
    if burn_in:
        early = jax.tree.map(lambda x: x[:burn_in], batch.observation)
        _, after = q.unroll(jax.lax.stop_gradient(params), carry, early, done[:burn_in])
        last = jax.tree.map(lambda x: x[-1], after)
        carry = trees.where(done[burn_in - 1], q.initial_carry(done.shape[1]), last)
    values, after = q.unroll(params, jax.lax.stop_gradient(carry), late.observation, done[burn_in:])
    env = jnp.arange(done.shape[1])
    followed = jnp.minimum(batch.follows, values.shape[0] - 1)
    successor_values, _ = q.step(params, jax.tree.map(lambda x: x[followed, env], after), batch.successor)
    return values, with_successors(values, successor_values, batch.follows)


def with_successors(along: Array, successor: Array, follows: Array) -> Array:
    """Return what stands after every step, [L, N, ...]: at the next step, or with its true successor where held.

    Args:
      along: [L, N, ...], of every step.
      successor: [K, N, ...], of true successors.
      follows: i32[K, N], the steps that these follow; L: none.
    """
    following = jnp.concatenate([along[1:], jnp.zeros_like(along[:1])])
    return following.at[follows, jnp.arange(along.shape[1])].set(successor, mode="drop")
