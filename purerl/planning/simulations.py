"""Simulations: the loop that grows the trees of mctx, with all its writes in place.

mctx maps the backup over the trees, so that each of its steps copies the statistics of all nodes. Here the trees that
have arrived at their root write nothing, and the others write in place. The action at the root is selected once, not
again at every depth. The resulting tree is the same. Source: mctx, github.com/google-deepmind/mctx.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import mctx

from purerl.types import Array, Key, PyTree

Tree = Any  # a `mctx.Tree`; its fields are annotated as arrays of NumPy, too
ROOT, UNVISITED = mctx.Tree.ROOT_INDEX, mctx.Tree.UNVISITED


class RecurrentFn(Protocol):
    """A model and a network: `recurrent_fn` of mctx."""

    def __call__(
        self, params: PyTree, rng_key: Key, action: Array, embedding: PyTree, /
    ) -> tuple[mctx.RecurrentFnOutput, PyTree]:
        """Step B nodes by B actions.

        Args:
          params: the parameters of the network.
          rng_key: for a stochastic model.
          action: i32[B], indices of candidate actions.
          embedding: [B, ...], of the nodes.

        Returns:
          (reward f32[B], discount f32[B], prior_logits f32[B, K] and value f32[B] of the transitions, the embeddings
          [B, ...] of the nodes that they lead to).
        """
        ...


class RootActionSelectionFn(Protocol):
    """The rule that selects an action at the root of one tree."""

    def __call__(self, rng_key: Key, tree: Tree, node_index: Array, /) -> PyTree:
        """Return the action, i32[], of one tree without a batch axis at the node i32[]."""
        ...


class InteriorActionSelectionFn(Protocol):
    """The rule that selects an action below the root of one tree."""

    def __call__(self, rng_key: Key, tree: Tree, node_index: Array, depth: Array, /) -> PyTree:
        """Return the action, i32[], of one tree without a batch axis at the node i32[] of a depth i32[]."""
        ...


class LoopFn(Protocol):
    """`loop_fn` of mctx: `jax.lax.fori_loop`, or one with its arguments."""

    def __call__(self, lower: int, upper: int, body_fun: Any, init_val: PyTree, /) -> PyTree:
        """Return (key, tree) after the simulations, from (key, tree) before them."""
        ...


class _Position(NamedTuple):
    """The positions of B simulations on their way down."""

    keys: Key  # [B]
    node: Array  # i32[B]
    action: Array  # i32[B], selected there
    child: Array  # i32[B], where it leads; UNVISITED: it was never tried
    depth: Array  # i32[], of the children


def in_place(
    params: PyTree,
    recurrent_fn: RecurrentFn,
    *,
    root_action_selection_fn: RootActionSelectionFn,
    interior_action_selection_fn: InteriorActionSelectionFn,
    max_depth: int | None,
) -> LoopFn:
    """Return a `loop_fn` for the policies of mctx; it also replaces the body of the loop.

    Args:
      params: passed to `recurrent_fn`.
      recurrent_fn: the one that the policy is called with.
      root_action_selection_fn: the policy's, at the root.
      interior_action_selection_fn: the policy's, below it.
      max_depth: largest depth of a tree, in actions; None: unlimited.
    """

    def simulate(number: Array, carry: tuple[Key, Tree]) -> tuple[Key, Tree]:
        key, tree = carry
        key, key_descend, key_expand = jax.random.split(key, 3)
        node, action, child = _descend(
            key_descend,
            tree,
            root_action_selection_fn=root_action_selection_fn,
            interior_action_selection_fn=interior_action_selection_fn,
            max_depth=max_depth,
        )
        child = jnp.where(child == UNVISITED, number + 1, child)
        rows = jnp.arange(node.shape[0])
        embedding = jax.tree.map(lambda x: x[rows, node], tree.embeddings)
        step, embedding = recurrent_fn(params, key_expand, action, embedding)
        tree = _expand(tree, node=node, action=action, child=child, step=step, embedding=embedding)
        return key, _backup(tree, child)

    return lambda lower, upper, body_fun, init_val: jax.lax.fori_loop(lower, upper, simulate, init_val)


def _descend(
    key: Key,
    tree: Tree,
    *,
    root_action_selection_fn: RootActionSelectionFn,
    interior_action_selection_fn: InteriorActionSelectionFn,
    max_depth: int | None,
) -> tuple[Array, Array, Array]:
    """Follow the selected actions to an untried one, or to `max_depth`: (node, action, child), i32[B]."""
    num, deepest = tree.node_values.shape[0], tree.num_simulations if max_depth is None else max_depth
    rows, root = jnp.arange(num), jnp.full(num, ROOT, jnp.int32)

    def select(keys: Key, selection_fn: Any, node: Array) -> tuple[Key, Array, Array]:
        pairs = jax.vmap(jax.random.split)(keys)
        action = jax.vmap(selection_fn)(pairs[:, 1], tree, node)
        return pairs[:, 0], action, tree.children_index[rows, node, action]

    def continues(at: _Position) -> Array:
        return (at.child != UNVISITED) & (at.depth < deepest)

    def deeper(at: _Position) -> _Position:
        moves, node = continues(at), jnp.maximum(at.child, ROOT)
        at_depth = lambda key, tree, node: interior_action_selection_fn(key, tree, node, at.depth)
        keys, action, child = select(at.keys, at_depth, node)
        move = lambda new, old: jnp.where(moves, new, old)
        return _Position(
            keys=keys,
            node=move(node, at.node),
            action=move(action, at.action),
            child=move(child, at.child),
            depth=at.depth + 1,
        )

    keys, action, child = select(jax.random.split(key, num), root_action_selection_fn, root)
    start = _Position(keys=keys, node=root, action=action, child=child, depth=jnp.int32(1))
    end = jax.lax.while_loop(lambda at: jnp.any(continues(at)), deeper, start)
    return end.node, end.action, end.child


def _expand(
    tree: Tree, *, node: Array, action: Array, child: Array, step: mctx.RecurrentFnOutput, embedding: PyTree
) -> Tree:
    """Write the transitions of B actions i32[B] at nodes i32[B], and their children i32[B]."""
    rows = jnp.arange(node.shape[0])
    at_child = lambda x, value: x.at[rows, child].set(value, unique_indices=True)
    at_edge = lambda x, value: x.at[rows, node, action].set(value, unique_indices=True)
    return tree.replace(
        children_prior_logits=at_child(tree.children_prior_logits, step.prior_logits),
        raw_values=at_child(tree.raw_values, step.value),
        node_values=at_child(tree.node_values, step.value),
        node_visits=tree.node_visits.at[rows, child].add(1, unique_indices=True),
        embeddings=jax.tree.map(at_child, tree.embeddings, embedding),
        parents=at_child(tree.parents, node),
        action_from_parent=at_child(tree.action_from_parent, action),
        children_index=at_edge(tree.children_index, child),
        children_rewards=at_edge(tree.children_rewards, step.reward),
        children_discounts=at_edge(tree.children_discounts, step.discount),
    )


def _backup(tree: Tree, leaf: Array) -> Tree:
    """Add the values of the leaves, i32[B], to the nodes above them."""
    rows, num_nodes = jnp.arange(leaf.shape[0]), tree.node_values.shape[1]

    def up(carry: PyTree) -> PyTree:
        node_values, node_visits, children_values, children_visits, leaf_value, value, node = carry
        parent, action = tree.parents[rows, node], tree.action_from_parent[rows, node]
        visits = node_visits[rows, parent]
        discount = tree.children_discounts[rows, parent, action]
        leaf_value = tree.children_rewards[rows, parent, action] + discount * leaf_value
        parent_value = (node_values[rows, parent] * visits + leaf_value) / (visits + 1.0)
        index = jnp.where(node == ROOT, num_nodes, parent)  # out of bounds: nothing is written
        write = lambda x, at, new: x.at[at].set(new, mode="drop", unique_indices=True)
        return (
            write(node_values, (rows, index), parent_value),
            write(node_visits, (rows, index), visits + 1),
            write(children_values, (rows, index, action), value),
            write(children_visits, (rows, index, action), children_visits[rows, parent, action] + 1),
            leaf_value,
            parent_value,
            jnp.where(node == ROOT, ROOT, parent),
        )

    value = tree.node_values[rows, leaf]
    carry = (tree.node_values, tree.node_visits, tree.children_values, tree.children_visits, value, value, leaf)
    node_values, node_visits, children_values, children_visits, *_ = jax.lax.while_loop(
        lambda carry: jnp.any(carry[-1] != ROOT), up, carry
    )
    return tree.replace(
        node_values=node_values,
        node_visits=node_visits,
        children_values=children_values,
        children_visits=children_visits,
    )
