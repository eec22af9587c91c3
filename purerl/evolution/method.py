"""The contract of the methods of `purerl evolve`: a search over candidates as pure functions of its state."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from purerl import agent_groups
from purerl.errors import InputError, check_arguments, told
from purerl.evolution.inner_loop import Learner, Plug, Task
from purerl.functional.objectives import check_objective
from purerl.loop.pieces import check_algorithm_kind
from purerl.loop.train import make_train
from purerl.registry import check_environment
from purerl.types import Array, Key, PyTree
from purerl.xla.trees import split_floats

METRICS = {  # by method: what it reports of a generation in addition to the fitness
    "evolution": ("sigma",),
    "meta-gradient": ("gradient_norm", "outer_loss", "progress"),
}


class MethodState(Protocol):
    """The state of a search: a NamedTuple of arrays, a pytree."""

    @property
    def key(self) -> Key:
        """The key; generation n uses fold_in(key, n)."""
        ...

    @property
    def generation(self) -> Array:
        """The number of completed generations, i32[]."""
        ...


class Generation(NamedTuple):
    """The results of a generation; P candidates, or agents."""

    fitness: Array  # f32[tasks, P], the means over seeds; NaN where it is not known
    failed: Array  # bool[tasks, P], where something was not finite
    mean: Array  # f32[n], the center before the generation
    metrics: dict[str, Array]  # f32[] by name, those of `METRICS`


class Method(NamedTuple):
    """A search as pure functions."""

    init: Callable[[Key], Any]  # key -> state
    step: Callable[[Any], tuple[Any, Generation]]  # state -> (state, results)
    tree: Callable[[Array], PyTree]  # a flat vector as a candidate
    center: Callable[[Any], Array]  # state -> f32[n], the center of the search
    size: int  # n


def flatten(candidate: PyTree) -> tuple[Array, Callable[[Array], PyTree]]:
    """Return (the float parameters as f32[n], a function that puts such a vector back into the tree)."""
    floats, join = split_floats(candidate)
    vector, unravel = ravel_pytree([jnp.asarray(leaf, jnp.float32) for leaf in floats])
    return vector, lambda vector: join(unravel(vector))


def check_kinds(learner: Learner, tasks: Sequence[Task]) -> None:
    """Raise an `InputError` unless a learner and tasks have the right types.

    Raises:
      InputError: naming the first wrong one.
    """
    check_arguments(learner, "learner", "candidate")
    if isinstance(learner, Plug):
        check_algorithm_kind(learner.algorithm)
    if not isinstance(tasks, list | tuple) or not all(isinstance(task, Task) for task in tasks):
        raise InputError(f"tasks is {told(tasks)}; it must be a list of purerl.evolution.inner_loop.Task")
    names = [task.name for task in tasks]
    for task in tasks:
        if not isinstance(task.name, str) or names.count(task.name) > 1:
            raise InputError(f"the name of a task is {told(task.name)}; it must be a text that no other task has")
        check_environment(task.env)
        if task.redraw is not None:
            check_arguments(task.redraw, f"redraw of the task {task.name}", "key, env")


def check_search(candidate: PyTree, learner: Learner, tasks: Sequence[Task]) -> None:
    """Reject candidates that no method can search, before anything is compiled.

    Raises:
      InputError: if there is nothing to change, the objective is not one, or the tasks do not fit together.
    """
    if not tasks:
        raise InputError("there is no task to evolve on: give at least one, such as CartPole-v1")
    for task in tasks:
        if groups := agent_groups.sizes(task.env):
            raise InputError(
                f"{task.name} has groups of agents, {', '.join(groups)}; an evolution needs tasks of one agent"
            )
    kinds = {task.name: type(task.env.action_space).__name__ for task in tasks}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        raise InputError(f"tasks must have actions of one kind: {listed}")
    if not split_floats(candidate)[0]:
        raise InputError(f"{type(candidate).__name__} has no parameters to evolve: none of its leaves is a float")
    if isinstance(learner, Plug) and learner.argument == "objective":
        check_objective(candidate)
    for task in tasks:  # the shapes of a whole lifetime: an objective that is not per sample fails here
        jax.eval_shape(make_train(learner(candidate), task.env, task.config, task.total_timesteps), jax.random.key(0))
