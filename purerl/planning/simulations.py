"""The simulations of a search: the loop by which mctx's trees grow, with all its writes in place.

mctx maps the way up a tree over the trees, so that each step of it copies the statistics of all nodes. Here the trees
that have arrived at their root write nothing, and the others write where they are. The root's action is chosen once,
not again at every depth. What grows is the same tree. Source: mctx, github.com/google-deepmind/mctx.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx

from purerl.types import Array, Key, PyTree

Tree = Any  # a `mctx.Tree`; its fields are annotated as arrays of NumPy, too
ROOT, UNVISITED = mctx.Tree.ROOT_INDEX, mctx.Tree.UNVISITED


class _Descent(NamedTuple):
    """Where B ways down their trees are."""

    keys: Key  # [B]
    node: Array  # i32[B]
    action: Array  # i32[B], chosen there
    child: Array  # i32[B], where it leads; UNVISITED: nowhere yet
    depth: Array  # i32[], of the children


def in_place(
    params: PyTree,
    expand: Callable[..., Any],
    choose_at_root: Callable[..., Any],
    choose: Callable[..., Any],
    max_depth: int | None,
) -> Callable[..., Any]:
    """Return a `loop_fn` for mctx's policies; it takes the place of the loop's body, too.

    Args:
      params: handed to `expand`.
      expand: the `recurrent_fn` that the policy is given.
      choose_at_root: (key, tree, node) -> action, of one tree: the policy's choice at the root.
      choose: (key, tree, node, depth) -> action, of one tree: its choice elsewhere.
      max_depth: actions that a tree goes deep; None: unlimited.
    """

    def simulate(number: Array, carry: tuple[Key, Tree]) -> tuple[Key, Tree]:
        key, tree = carry
        key, key_descend, key_expand = jax.random.split(key, 3)
        node, action, child = _descend(key_descend, tree, choose_at_root, choose, max_depth)
        child = jnp.where(child == UNVISITED, number + 1, child)
        rows = jnp.arange(node.shape[0])
        step, embedding = expand(params, key_expand, action, jax.tree.map(lambda x: x[rows, node], tree.embeddings))
        return key, _back_up(_grow(tree, node, action, child, step, embedding), child)

    return lambda first, end, body, carry: jax.lax.fori_loop(first, end, simulate, carry)


def _descend(
    key: Key, tree: Tree, choose_at_root: Any, choose: Any, max_depth: int | None
) -> tuple[Array, Array, Array]:
    """Go down each tree to an action that leads nowhere yet, or as deep as may be: (node, action, child), i32[B]."""
    num, deepest = tree.node_values.shape[0], tree.num_simulations if max_depth is None else max_depth
    rows, root = jnp.arange(num), jnp.full(num, ROOT, jnp.int32)

    def chosen(keys: Key, choice: Any, node: Array) -> tuple[Key, Array, Array]:
        pairs = jax.vmap(jax.random.split)(keys)
        action = jax.vmap(choice)(pairs[:, 1], tree, node)
        return pairs[:, 0], action, tree.children_index[rows, node, action]

    def goes_on(at: _Descent) -> Array:
        return (at.child != UNVISITED) & (at.depth < deepest)

    def deeper(at: _Descent) -> _Descent:
        on, node = goes_on(at), jnp.maximum(at.child, ROOT)
        keys, action, child = chosen(at.keys, lambda *one: choose(*one, at.depth), node)
        keep = lambda new, old: jnp.where(on, new, old)
        return _Descent(
            keys=keys,
            node=keep(node, at.node),
            action=keep(action, at.action),
            child=keep(child, at.child),
            depth=at.depth + 1,
        )

    keys, action, child = chosen(jax.random.split(key, num), choose_at_root, root)
    begun = _Descent(keys=keys, node=root, action=action, child=child, depth=jnp.int32(1))
    end = jax.lax.while_loop(lambda at: jnp.any(goes_on(at)), deeper, begun)
    return end.node, end.action, end.child


def _grow(
    tree: Tree, node: Array, action: Array, child: Array, step: mctx.RecurrentFnOutput, embedding: PyTree
) -> Tree:
    """Write the edges that were stepped, and the nodes that they lead to."""
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


def _back_up(tree: Tree, leaf: Array) -> Tree:
    """Add the values of new leaves, i32[B], to the nodes above them."""
    rows, num_nodes = jnp.arange(leaf.shape[0]), tree.node_values.shape[1]

    def up(carry: Any) -> Any:
        node_values, node_visits, children_values, children_visits, found, value, node = carry
        parent, action = tree.parents[rows, node], tree.action_from_parent[rows, node]
        visits = node_visits[rows, parent]
        found = tree.children_rewards[rows, parent, action] + tree.children_discounts[rows, parent, action] * found
        above = (node_values[rows, parent] * visits + found) / (visits + 1.0)
        place = jnp.where(node == ROOT, num_nodes, parent)  # beyond the end: nothing is written
        write = lambda x, at, new: x.at[at].set(new, mode="drop", unique_indices=True)
        return (
            write(node_values, (rows, place), above),
            write(node_visits, (rows, place), visits + 1),
            write(children_values, (rows, place, action), value),
            write(children_visits, (rows, place, action), children_visits[rows, parent, action] + 1),
            found,
            above,
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
