"""Monte Carlo tree search (MCTS) with mctx: one tree per environment, by Gumbel MuZero's rule or by PUCT.

Source: Danihelka et al. (2022), openreview.net/forum?id=bERaNdoegnO; Silver et al. (2018), doi:10.1126/science.aar6404.
"""

import dataclasses
import importlib
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import mctx

from purerl.planning.config import SearchConfig
from purerl.planning.simulations import InteriorActionSelectionFn, RecurrentFn, RootActionSelectionFn, in_place
from purerl.types import Array, Key, PyTree


class SearchOutput(NamedTuple):
    """The result of B searches with K actions at the root."""

    action: Array  # i32[B], the proposed action
    action_weights: Array  # f32[B, K], the improved policy: the target of the network's policy
    value: Array  # f32[B], of the root under that policy, over the visited actions


def root_output(prior_logits: Array, value: Array, embedding: PyTree) -> mctx.RootFnOutput:
    """Return the roots of B trees: logits f32[B, K], values f32[B] and embeddings [B, ...]."""
    return mctx.RootFnOutput(prior_logits=prior_logits, value=value, embedding=embedding)  # type: ignore[call-arg]


def recurrent_output(reward: Array, discount: Array, prior_logits: Array, value: Array) -> mctx.RecurrentFnOutput:
    """Return the output of a `RecurrentFn`.

    Args:
      reward: f32[B], of the transition.
      discount: f32[B], between the reward and the value; negative if the opponent moves next.
      prior_logits: f32[B, K], after the transition.
      value: f32[B], after the transition.
    """
    return mctx.RecurrentFnOutput(reward=reward, discount=discount, prior_logits=prior_logits, value=value)  # type: ignore[call-arg]


def search(
    config: SearchConfig,
    key: Key,
    *,
    params: PyTree,
    root: mctx.RootFnOutput,
    recurrent_fn: RecurrentFn,
    legal_actions: Array | None = None,
) -> SearchOutput:
    """Run MCTS from B roots, with exploration noise at the roots.

    Args:
      config: the settings.
      key: for the noise and for a stochastic model.
      params: passed to `recurrent_fn`.
      root: from `root_output`.
      recurrent_fn: the model and the network.
      legal_actions: bool[B, K], at the root; None: all actions.
    """
    with jax.numpy_dtype_promotion("standard"):  # as mctx computes
        policy, select_at_root, select = gumbel(config) if config.search == "gumbel" else puct(config)
        output = policy(
            params=params,
            rng_key=key,
            root=root,
            recurrent_fn=recurrent_fn,
            num_simulations=config.num_simulations,
            invalid_actions=None if legal_actions is None else (~legal_actions).astype(jnp.float32),
            max_depth=config.max_depth,
            loop_fn=in_place(
                params,
                recurrent_fn,
                root_action_selection_fn=select_at_root,
                interior_action_selection_fn=select,
                max_depth=config.max_depth,
            ),
        )
        summary = output.search_tree.summary()
        weights = output.action_weights
        visited = jnp.where(summary.visit_counts > 0, weights, 0.0)
        value = jnp.sum(visited * summary.qvalues, axis=-1) / jnp.maximum(jnp.sum(visited, axis=-1), 1e-12)
    return SearchOutput(action=jnp.asarray(output.action, jnp.int32), action_weights=jnp.asarray(weights), value=value)


def greedy_search(config: SearchConfig, key: Key, **inputs: Any) -> SearchOutput:
    """Run MCTS without exploration noise: `search` with the same arguments; the key is for a stochastic model."""
    noiseless: Any = {"gumbel_scale": 0.0, "dirichlet_fraction": 0.0, "temperature": 0.0}
    output = search(dataclasses.replace(config, **noiseless), key, **inputs)
    if config.search == "gumbel":
        return output
    return output._replace(action=jnp.argmax(output.action_weights, axis=-1).astype(jnp.int32))


class SearchPolicy(Protocol):
    """A policy of mctx, such as `mctx.gumbel_muzero_policy`."""

    def __call__(
        self,
        *,
        params: PyTree,
        rng_key: Key,
        root: mctx.RootFnOutput,
        recurrent_fn: Any,
        num_simulations: int,
        invalid_actions: Array | None,
        max_depth: int | None,
        loop_fn: Any,
    ) -> mctx.PolicyOutput[Any]:
        """Return the actions i32[B], their weights f32[B, K] and the trees; `invalid_actions` is f32[B, K] or None."""
        ...


class Selection(NamedTuple):
    """A policy of mctx, and the rules by which it selects actions in a tree."""

    policy: SearchPolicy
    at_root: RootActionSelectionFn
    interior: InteriorActionSelectionFn


def gumbel(config: SearchConfig) -> Selection:
    """Return Gumbel MuZero's selection: sequential halving at the root, and completed Q values below it."""
    qtransform = lambda *node: mctx.qtransform_completed_by_mix_value(
        *node,
        value_scale=config.value_scale,
        rescale_values=config.normalize_search_value,
        epsilon=1.0,  # mctx's is 1e-8: the smallest errors of values decided where no action was better
    )
    at_root: Any = {"max_num_considered_actions": config.max_considered_actions, "qtransform": qtransform}
    return Selection(
        policy=partial(mctx.gumbel_muzero_policy, gumbel_scale=config.gumbel_scale, **at_root),
        at_root=partial(mctx.gumbel_muzero_root_action_selection, num_simulations=config.num_simulations, **at_root),
        interior=partial(mctx.gumbel_muzero_interior_action_selection, qtransform=qtransform),
    )


def puct(config: SearchConfig) -> Selection:
    """Return AlphaZero's selection: PUCT everywhere, with Dirichlet noise in the prior of the root."""
    interior = partial(mctx.muzero_action_selection, pb_c_init=config.puct_constant)
    return Selection(
        policy=partial(
            mctx.muzero_policy,
            dirichlet_fraction=jnp.float32(config.dirichlet_fraction),
            dirichlet_alpha=jnp.float32(config.dirichlet_alpha),
            pb_c_init=config.puct_constant,
            temperature=config.temperature,
        ),
        at_root=partial(interior, depth=0),
        interior=interior,
    )


_EARLIER = {  # names of this module before it became several
    "SearchConfig": ("config", "SearchConfig"),
    "SearchNetwork": ("network", "SearchNetwork"),
    "network_for": ("network", "network_for"),
    "Offer": ("candidates", "Candidates"),
    "offer": ("candidates", "candidate_actions"),
    "offered": ("candidates", "take_actions"),
    "log_probs": ("candidates", "log_probs"),
    "Found": ("search", "SearchOutput"),
    "root_of": ("search", "root_output"),
    "edge": ("search", "recurrent_output"),
    "acts": ("acting", "explore_uniformly"),
    "act_by_search": ("acting", "act_by_search"),
    "search_returns": ("value_targets", "search_returns"),
    "to_scale": ("value_targets", "to_scale"),
    "from_scale": ("value_targets", "from_scale"),
}


def __getattr__(name: str) -> Any:
    if name in _EARLIER:
        module, now = _EARLIER[name]
        return getattr(importlib.import_module(f"purerl.planning.{module}"), now)
    raise AttributeError(f"module {__name__} has no attribute {name}")
