"""Evolution strategies: ask for candidates, tell their fitness. Candidates are flat vectors; fitter is larger.

A strategy is a pytree: its numbers, such as `sigma` and `learning_rate`, may be traced and vmapped. It has three pure
functions and two that look into its state:

    init(mean[n]) -> state
    ask(state, key) -> (candidates[P, n], state)
    tell(state, candidates[P, n], fitness[P]) -> state
    mean(state) -> [n],  sigma(state) -> []
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from purerl.catalog.strategies import EVOSAX, STRATEGIES
from purerl.errors import InputError, check_arguments, told, unknown
from purerl.evolution.evosax_adapter import Evosax, of_evosax
from purerl.fields import validate
from purerl.optim.optimizers import apply_gradients
from purerl.settings.options import EvolveOptions
from purerl.types import Array, Key, PyTree, number, pytree, static


def check_population(population: int, antithetic: bool) -> None:
    """Reject a population that cannot be sampled.

    Raises:
      InputError: if it is below 2, or odd where candidates come in pairs.
    """
    if population < 2:
        raise InputError(f"population is {population}; it must be at least 2")
    if antithetic and population % 2:
        raise InputError(
            f"population is {population}; antithetic sampling needs pairs: use {population + 1}, or turn it off"
        )


def check_strategy(strategy: object) -> None:
    """Reject objects that are not strategies, and optimizers that are not functions of the learning rate.

    Raises:
      InputError: naming it.
    """
    if isinstance(strategy, type):
        raise InputError(f"strategy is the class {strategy.__name__}; give an instance: {strategy.__name__}()")
    functions = all(callable(getattr(strategy, name, None)) for name in ("init", "ask", "tell", "mean", "sigma"))
    if not functions or not hasattr(strategy, "population"):
        raise InputError(f"strategy is {told(strategy)}; it must be a name, or one of purerl.evolution.strategies")
    if dataclasses.is_dataclass(strategy):
        validate(strategy, type(strategy).__name__)
    optimizer = getattr(strategy, "optimizer", None)
    if optimizer is not None:
        check_arguments(optimizer, "the optimizer of a strategy", "learning_rate")


def draw(key: Key, population: int, size: int, antithetic: bool) -> Array:
    """Return standard normal noise, f32[population, size]; antithetic: the second half is the negated first half."""
    if not antithetic:
        return jax.random.normal(key, (population, size))
    half = jax.random.normal(key, (population // 2, size))
    return jnp.concatenate([half, -half])


class OpenESState(NamedTuple):
    """The state of the search."""

    mean: Array  # f32[n]
    opt_state: PyTree
    generation: Array  # i32[]


@pytree
class OpenES:
    """A Gaussian of fixed shape whose mean follows the estimated gradient of the expected fitness.

    g = 1 / (P sigma) sum_i fitness_i (x_i - mean) / sigma, then a step of an optax optimizer along g.

    Source: Salimans et al. (2017), arXiv:1703.03864; the decays as Lu et al. (2022), arXiv:2210.05639, have them.
    """

    population: int = static(default=64, doc="candidates per generation", at_least=2)
    antithetic: bool = static(default=True, doc="draw candidates in pairs, mean + e and mean - e")
    optimizer: Callable[[optax.Schedule], optax.GradientTransformation] = static(
        default=optax.adam, doc="learning rate -> optax"
    )
    start_sigma: Any = number(default=0.04, doc="standard deviation of the candidates", above=0)
    sigma_decay: Any = number(default=0.999, doc="its factor per generation", above=0)
    least_sigma: Any = number(default=0.01, doc="where its decay ends", at_least=0)
    learning_rate: Any = number(default=0.01, doc="learning rate of the optimizer", above=0)
    learning_rate_decay: Any = number(default=0.999, doc="its factor per generation", above=0)
    least_learning_rate: Any = number(default=0.001, doc="where its decay ends", at_least=0)

    def _optimizer(self) -> optax.GradientTransformation:
        return self.optimizer(
            lambda n: _decayed(self.learning_rate, self.learning_rate_decay, n, self.least_learning_rate)
        )

    def init(self, mean: Array) -> OpenESState:
        """Start at `mean`, f32[n]."""
        return OpenESState(mean=mean, opt_state=self._optimizer().init(mean), generation=jnp.int32(0))

    def ask(self, state: OpenESState, key: Key) -> tuple[Array, OpenESState]:
        """Return (candidates f32[P, n], state)."""
        noise = draw(key, self.population, state.mean.shape[0], self.antithetic)
        return state.mean + self.sigma(state) * noise, state

    def tell(self, state: OpenESState, candidates: Array, fitness: Array) -> OpenESState:
        """Return the state after a step toward the fitter candidates; fitness is f32[P], larger is better."""
        sigma = self.sigma(state)
        gradient = -fitness @ ((candidates - state.mean) / sigma) / (self.population * sigma)
        mean, opt_state = apply_gradients(self._optimizer(), gradient, state.opt_state, state.mean)
        return OpenESState(mean=mean, opt_state=opt_state, generation=state.generation + 1)

    def mean(self, state: OpenESState) -> Array:
        """Return f32[n], the center of the search."""
        return state.mean

    def sigma(self, state: OpenESState) -> Array:
        """Return f32[], the standard deviation of the next candidates."""
        return _decayed(self.start_sigma, self.sigma_decay, state.generation, self.least_sigma)


class SNESState(NamedTuple):
    """The state of the search."""

    mean: Array  # f32[n]
    deviation: Array  # f32[n]


@pytree
class SNES:
    """Separable natural evolution strategy: each coordinate has an adaptive standard deviation.

    With z = (x - mean) / s and rank utilities u:  mean += r_mean s sum(u z),  s *= exp(r_s / 2 sum(u (z^2 - 1))).

    Source: Schaul et al. (2011), "High dimensions and heavy tails for natural evolution strategies"; the constants as
    in Wierstra et al. (2014), JMLR 15, table 1. Candidates of equal fitness share their utilities.
    """

    population: int = static(default=64, doc="candidates per generation", at_least=2)
    antithetic: bool = static(default=True, doc="draw candidates in pairs, mean + e and mean - e")
    start_sigma: Any = number(default=0.04, doc="standard deviation of the first candidates", above=0)
    learning_rate: Any = number(default=1.0, doc="learning rate of the mean, in standard deviations", above=0)
    sigma_learning_rate: Any = number(
        default=None, doc="learning rate of sigma; None: (3 + log n) / (5 sqrt n)", above=0
    )

    def init(self, mean: Array) -> SNESState:
        """Start at `mean`, f32[n]."""
        return SNESState(mean, jnp.full_like(mean, self.start_sigma))

    def ask(self, state: SNESState, key: Key) -> tuple[Array, SNESState]:
        """Return (candidates f32[P, n], state)."""
        noise = draw(key, self.population, state.mean.shape[0], self.antithetic)
        return state.mean + state.deviation * noise, state

    def tell(self, state: SNESState, candidates: Array, fitness: Array) -> SNESState:
        """Return the state after the generation; fitness is f32[P], larger is better."""
        n = state.mean.shape[0]
        rate = self.sigma_learning_rate
        rate = (3 + math.log(n)) / (5 * math.sqrt(n)) if rate is None else rate
        z = (candidates - state.mean) / state.deviation
        utility = utilities(fitness)
        mean = state.mean + self.learning_rate * state.deviation * (utility @ z)
        return SNESState(mean, state.deviation * jnp.exp(0.5 * rate * (utility @ (z**2 - 1.0))))

    def mean(self, state: SNESState) -> Array:
        """Return f32[n], the center of the search."""
        return state.mean

    def sigma(self, state: SNESState) -> Array:
        """Return f32[], the geometric mean of the deviations."""
        return jnp.exp(jnp.mean(jnp.log(state.deviation)))


def make_strategy(options: EvolveOptions, size: int) -> OpenES | SNES | Evosax:
    """Return the strategy that the options name, for candidates of this many numbers.

    Raises:
      InputError: if there is none of that name, or evosax is not installed.
    """
    if options.sigma <= 0:
        raise InputError(f"sigma is {options.sigma:g}; it must be above 0")
    common: dict[str, Any] = {
        "population": options.population, "antithetic": options.antithetic, "start_sigma": options.sigma
    }  # fmt: skip
    name = options.strategy.lower()
    if name == "openes":
        return OpenES(learning_rate=options.meta_learning_rate, sigma_decay=options.sigma_decay, **common)
    if name == "snes":
        _reject_changed(options, "sigma_decay", "meta_learning_rate")
        return SNES(**common)
    _reject_changed(options, "sigma_decay", "antithetic")
    name = name.removeprefix("evosax:")
    if name not in EVOSAX:
        raise unknown("strategy", options.strategy, STRATEGIES, limit=len(STRATEGIES))
    return of_evosax(EVOSAX[name], options, size)


def _reject_changed(options: EvolveOptions, *names: str) -> None:
    """Reject values of options that the strategy does not have."""
    for field in dataclasses.fields(options):
        if field.name in names and getattr(options, field.name) != field.default:
            raise InputError(f"{field.name} is not an option of the strategy {options.strategy}; openes has it")


def utilities(fitness: Array) -> Array:
    """Return f32[P] that sum to 0: max(0, log(P/2 + 1) - log(rank)) normalized, minus 1/P; ties share the mean.

    Source: Wierstra et al. (2014), JMLR 15, section 3.1.
    """
    size = fitness.shape[0]
    raw = jnp.maximum(0.0, math.log(size / 2 + 1) - jnp.log(jnp.arange(1, size + 1, dtype=jnp.float32)))
    by_rank = raw / jnp.sum(raw) - 1.0 / size
    place = jnp.argsort(jnp.argsort(-fitness))
    equal = (fitness[:, None] == fitness[None, :]).astype(jnp.float32)
    return equal @ by_rank[place] / jnp.sum(equal, axis=1)


def _decayed(start: Any, factor: Any, generation: Any, least: Any) -> Array:
    now = start * factor ** jnp.asarray(generation).astype(jnp.float32)
    return jnp.maximum(now, jnp.minimum(least, start))
