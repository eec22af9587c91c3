"""Strategies of evosax in the form of `purerl.evolution.strategies`."""

import importlib
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import optax

from purerl.errors import InputError, install
from purerl.settings.options import EvolveOptions
from purerl.types import Array, Key, PyTree, number, pytree, static


@pytree
class Evosax:
    """A distribution-based strategy of evosax, such as `CMA_ES` or `Sep_CMA_ES`; its extra is purerl[evosax].

    evosax minimizes, so the fitness is negated; its hyperparameters are constants, which cannot be vmapped.
    """

    strategy: Any = static(doc="made by evosax with population_size and solution=jnp.zeros(n)")
    parameters: Any = number(default=None, doc="evosax's params; None: its defaults")

    @property
    def population(self) -> int:
        """Candidates per generation."""
        return self.strategy.population_size

    @property
    def antithetic(self) -> bool:
        """Whether the second half of the candidates mirrors the first; not known for evosax."""
        return False

    def _params(self) -> PyTree:
        return self.strategy.default_params if self.parameters is None else self.parameters

    def init(self, mean: Array) -> PyTree:
        """Start at `mean`, f32[n]."""
        with jax.numpy_dtype_promotion("standard"):
            state = self.strategy.init(jax.random.key(0), mean, self._params())
        return jax.tree.map(lambda x: jax.lax.convert_element_type(x, jnp.asarray(x).dtype), state)  # not weakly typed

    def ask(self, state: PyTree, key: Key) -> tuple[Array, PyTree]:
        """Return (candidates f32[P, n], state)."""
        with jax.numpy_dtype_promotion("standard"):
            return self.strategy.ask(key, state, self._params())

    def tell(self, state: PyTree, candidates: Array, fitness: Array) -> PyTree:
        """Return the state after the generation; fitness is f32[P], larger is better."""
        with jax.numpy_dtype_promotion("standard"):
            updated, _ = self.strategy.tell(jax.random.key(0), candidates, -fitness, state, self._params())
        return jax.tree.map(lambda new, old: new.astype(old.dtype), updated, state)

    def mean(self, state: PyTree) -> Array:
        """Return f32[n], the center of the search."""
        return self.strategy.get_mean(state)

    def sigma(self, state: PyTree) -> Array:
        """Return f32[], the mean standard deviation."""
        return jnp.mean(state.std)


def of_evosax(name: str, options: EvolveOptions, size: int) -> Evosax:
    """Return an algorithm of evosax; if it has a sigma and a learning rate, they come from the options."""
    try:
        algorithm = getattr(importlib.import_module("evosax.algorithms"), name)
    except ModuleNotFoundError:
        raise InputError(f"evosax is not installed: {install('evosax')}") from None
    known = inspect.signature(algorithm).parameters
    settings: dict[str, Any] = {}
    if "std_schedule" in known:
        settings["std_schedule"] = optax.constant_schedule(options.sigma)
        if "optimizer" in known:
            settings["optimizer"] = optax.adam(options.meta_learning_rate)
    try:
        with jax.numpy_dtype_promotion("standard"):
            strategy = algorithm(population_size=options.population, solution=jnp.zeros(size), **settings)
            params = strategy.default_params
    except (AssertionError, ValueError) as error:  # such as an odd population where it draws pairs
        why = (str(error).strip() or "without a word").splitlines()[0]
        raise InputError(f"{name} of evosax rejects a population of {options.population}: {why}") from None
    return Evosax(
        strategy=strategy, parameters=params.replace(std_init=options.sigma) if hasattr(params, "std_init") else params
    )
