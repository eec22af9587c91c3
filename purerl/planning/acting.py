"""Acting by MCTS: from the policy and the value at B roots to B actions, and the extras for learning."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from purerl import agent_groups
from purerl.functional.action_masks import action_mask
from purerl.functional.distributions import ActionHead, Categorical
from purerl.planning.candidates import candidate_actions, take_actions
from purerl.planning.config import SearchConfig
from purerl.planning.search import greedy_search, root_output, search
from purerl.planning.simulations import RecurrentFn
from purerl.spaces import Dict, Space
from purerl.types import Array, Key, PyTree
from purerl.xla.trees import where


class EmbedRoots(Protocol):
    """A function from roots to the embeddings of a tree."""

    def __call__(self, actions: PyTree, /) -> PyTree:
        """Return the embeddings [B, ...] of B roots with candidate actions [B, K, ...], or () for discrete ones."""
        ...


def act_by_search(
    config: SearchConfig,
    key: Key,
    *,
    space: Space,
    head: ActionHead,
    policy: Any,
    value: Array,
    embed: EmbedRoots,
    params: PyTree,
    recurrent_fn: RecurrentFn,
    observation: PyTree,
    explore: bool,
) -> tuple[PyTree, PyTree]:
    """Run MCTS from B roots and return the actions.

    Args:
      config: the settings.
      key: for exploration and samples. Without exploration the same roots give the same actions for any key.
      space: the action space.
      head: the head of the actions.
      policy: the distribution of actions at the roots.
      value: f32[B], of the roots.
      embed: the candidate actions of the roots -> the embeddings of the roots.
      params: passed to `recurrent_fn`.
      recurrent_fn: the model and the network.
      observation: [B, ...], at the roots. Its action mask, if any, is used if the policy is categorical; samples of
        other policies are legal.
      explore: whether to act as in training.

    Returns:
      (the actions [B, ...], extras). Without exploration the extras are (); else they are "candidates", the candidate
      actions, "action_weights" f32[B, K] and "root_value" f32[B] of the search, and "uniform" bool[B], which actions
      were sampled uniformly.
    """
    legal_actions = action_mask(observation) if isinstance(policy, Categorical) else None
    key = key if explore else fixed_key(key)
    key_search, key_sample = jax.random.split(key)
    candidates = candidate_actions(policy, jax.random.fold_in(key_sample, 1), config, best=not explore)
    run = search if explore else greedy_search
    output = run(
        config,
        key_search,
        params=params,
        root=root_output(candidates.prior_logits, value, embed(candidates.actions)),
        recurrent_fn=recurrent_fn,
        legal_actions=legal_actions,
    )
    action = head.to_action(take_actions(candidates.actions, output.action))
    if not explore:
        return action, ()
    action, uniform = explore_uniformly(key_sample, action, space, observation, config.epsilon)
    extras = {"action_weights": output.action_weights, "root_value": output.value, "uniform": uniform}
    return action, extras | {"candidates": candidates.actions}


def explore_uniformly(
    key: Key, action: PyTree, space: Space, observation: PyTree, epsilon: Array | float
) -> tuple[PyTree, Array]:
    """Replace a fraction of the actions by uniform samples of the whole space, not of the candidates.

    Args:
      key: for the samples.
      action: [B, ...], of the search.
      space: the action space. Numbers without bounds are sampled from a standard normal distribution.
      observation: [B, ...]; samples are legal by its action mask.
      epsilon: the fraction.

    Returns:
      (actions [B, ...], which of them were sampled uniformly bool[B]).
    """
    key_which, key_sample = jax.random.split(key)
    num = jax.tree.leaves(action)[0].shape[0]
    uniform = jax.random.bernoulli(key_which, epsilon, (num,))
    draw = lambda key, seen: space.sample(key) if isinstance(space, Dict) else agent_groups.draw(space, key, seen)
    sample = jax.vmap(draw)(jax.random.split(key_sample, num), observation)
    return where(uniform, sample, action), uniform


def fixed_key(key: Key) -> Key:
    """Return a fixed key of the same kind, which does not depend on the given one."""
    return jax.random.wrap_key_data(jnp.zeros_like(jax.random.key_data(key)), impl=jax.random.key_impl(key))
