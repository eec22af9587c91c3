"""Acting by MCTS: from the policy and the value at B roots to B actions, and the extras that are learned from."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from purerl.functional.action_masks import mask_illegal
from purerl.functional.distributions import ActionHead, Categorical
from purerl.planning.candidates import candidate_actions, take_actions
from purerl.planning.config import SearchConfig
from purerl.planning.search import SearchOutput, greedy_search, root_output, search
from purerl.planning.simulations import RecurrentFn
from purerl.types import Array, Key, PyTree


class EmbedRoots(Protocol):
    """How roots become the embeddings of a tree."""

    def __call__(self, actions: PyTree, /) -> PyTree:
        """Return the embeddings [B, ...] of B roots with candidate actions [B, K, ...], or () for discrete ones."""
        ...


def act_by_search(
    config: SearchConfig,
    key: Key,
    *,
    head: ActionHead,
    policy: Any,
    value: Array,
    embed: EmbedRoots,
    params: PyTree,
    recurrent_fn: RecurrentFn,
    legal_actions: Array | None,
    explore: bool,
) -> tuple[PyTree, Any]:
    """Run MCTS from B roots and return the actions.

    Args:
      config: the settings.
      key: for exploration and samples. Without exploration the same roots give the same actions for any key.
      head: the head of the actions.
      policy: the distribution of actions at the roots.
      value: f32[B], of the roots.
      embed: the candidate actions of the roots -> the embeddings of the roots.
      params: passed to `recurrent_fn`.
      recurrent_fn: the model and the network.
      legal_actions: bool[B, n], at the root; None: all actions. It is used if the policy is categorical; samples of
        other policies are legal.
      explore: whether to act as in training.

    Returns:
      (the actions [B, ...], extras). Without exploration the extras are (); else they are those of
      `explore_uniformly` and "candidates", the candidate actions.
    """
    legal_actions = legal_actions if isinstance(policy, Categorical) else None
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
    if not explore:
        return head.to_action(take_actions(candidates.actions, output.action)), ()
    index, extras = explore_uniformly(key_sample, output, legal_actions, config)
    return head.to_action(take_actions(candidates.actions, index)), extras | {"candidates": candidates.actions}


def explore_uniformly(
    key: Key, output: SearchOutput, legal_actions: Array | None, config: SearchConfig
) -> tuple[Array, dict[str, Array]]:
    """Replace a fraction `config.epsilon` of the actions by uniform samples.

    Args:
      key: for the samples.
      output: of the search.
      legal_actions: bool[B, K]; None: all actions.
      config: the settings.

    Returns:
      (actions i32[B], extras): "action_weights" f32[B, K] and "root_value" f32[B] of the search, and "uniform" bool[B],
      which actions were sampled uniformly.
    """
    key_which, key_sample = jax.random.split(key)
    uniform = jax.random.bernoulli(key_which, config.epsilon, output.action.shape)
    logits = mask_illegal(jnp.zeros_like(output.action_weights), legal_actions)
    sample = jax.random.categorical(key_sample, logits).astype(jnp.int32)
    extras = {"action_weights": output.action_weights, "root_value": output.value, "uniform": uniform}
    return jnp.where(uniform, sample, output.action), extras


def fixed_key(key: Key) -> Key:
    """Return a key of the same kind that does not depend on the given one."""
    return jax.random.wrap_key_data(jnp.zeros_like(jax.random.key_data(key)), impl=jax.random.key_impl(key))
