"""Candidate actions: the actions that a node of a tree considers.

A categorical policy has n discrete actions, and all of them are candidates. Any other policy is sampled.
Source: Hubert et al. (2021), "Learning and planning in complex action spaces", arXiv:2104.06303.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.functional.distributions import Categorical
from purerl.planning.config import SearchConfig
from purerl.types import Array, Key, PyTree


class Candidates(NamedTuple):
    """The K candidate actions of B nodes; a tree refers to them by index."""

    actions: PyTree  # [B, K, ...], samples of the policy; () if they are the K discrete actions
    prior_logits: Array  # f32[B, K]; 0 for samples, because they already follow the policy


def candidate_actions(policy: Any, key: Key, config: SearchConfig, best: bool = False) -> Candidates:
    """Return the candidate actions of B nodes.

    Args:
      policy: the distribution of actions at the nodes, [B].
      key: for samples.
      config: the settings.
      best: whether the mode of the policy replaces the first sample.
    """
    if isinstance(policy, Categorical):
        return Candidates(actions=(), prior_logits=policy.logits)
    keys = jax.random.split(key, config.num_sampled_actions)
    actions = jax.vmap(lambda key: policy.sample(seed=key), out_axes=1)(keys)
    if best:
        actions = jax.tree.map(lambda x, mode: x.at[:, 0].set(mode), actions, policy.mode())
    return Candidates(actions=actions, prior_logits=jnp.zeros(jax.tree.leaves(actions)[0].shape[:2]))


def take_actions(actions: PyTree, index: Array) -> PyTree:
    """Return the candidate of each node at an index, i32[B]: the samples there, or the discrete actions themselves."""
    rows = jnp.arange(index.shape[0])
    return jax.tree.map(lambda x: x[rows, index], actions) if jax.tree.leaves(actions) else index


def log_probs(policy: Any, actions: PyTree) -> Array:
    """Return the log-probabilities f32[..., K] of candidate actions [..., K, ...] under policies [...]."""
    if isinstance(policy, Categorical):
        return jax.nn.log_softmax(policy.logits)
    axis = jax.eval_shape(policy.entropy).ndim
    return jax.vmap(policy.log_prob, in_axes=axis, out_axes=axis)(actions)
