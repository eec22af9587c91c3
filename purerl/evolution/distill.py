"""Distills a learned drift: fits a closed form over a basis, and reports its error."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.functional.objectives import Objective, ratio_of
from purerl.types import Array, PyTree, number, pytree, static

TermFunction = Callable[[Array, Array, Array, Any], Array]

TERMS = 2  # at most, for each sign of the advantage
WORTH = 0.5  # a further term must bring the error below this share of what it was
SCALES = np.geomspace(0.02, 20.0, 61)  # where the search for a term's parameter begins


class Term(NamedTuple):
    """A non-negative function of (log-ratio d, ratio r, advantage A, parameter p)."""

    function: TermFunction
    text: str  # with {p} where it has a parameter


BASIS: dict[str, Term] = {
    "tanh u": Term(lambda d, r, a, p: _bend((r - 1) * a, p), "relu(u - {p} tanh(u / {p})), u = (r - 1) A"),
    "tanh v": Term(lambda d, r, a, p: _bend(d * a, p), "relu(v - {p} tanh(v / {p})), v = log(r) A"),
    "clip": Term(
        lambda d, r, a, p: jax.nn.relu((r - jnp.clip(r, 1 - p, 1 + p)) * a), "relu((r - clip(r, 1 +- {p})) A)"
    ),
    "kl": Term(lambda d, r, a, p: r - 1 - d, "(r - 1 - log r)"),
    "kl |A|": Term(lambda d, r, a, p: (r - 1 - d) * jnp.abs(a), "(r - 1 - log r) |A|"),
    "square": Term(lambda d, r, a, p: (r - 1) ** 2, "(r - 1)^2"),
    "square |A|": Term(lambda d, r, a, p: (r - 1) ** 2 * jnp.abs(a), "(r - 1)^2 |A|"),
    "square A^2": Term(lambda d, r, a, p: ((r - 1) * a) ** 2, "((r - 1) A)^2"),
    "log square": Term(lambda d, r, a, p: d**2, "log(r)^2"),
    "log square |A|": Term(lambda d, r, a, p: d**2 * jnp.abs(a), "log(r)^2 |A|"),
    "log square A^2": Term(lambda d, r, a, p: (d * a) ** 2, "(log(r) A)^2"),
    "fall |A|": Term(lambda d, r, a, p: jax.nn.relu(-d) * jnp.abs(a), "relu(-log r) |A|"),
    "fall square |A|": Term(lambda d, r, a, p: jax.nn.relu(-d) ** 2 * jnp.abs(a), "relu(-log r)^2 |A|"),
    "rise |A|": Term(lambda d, r, a, p: jax.nn.relu(d) * jnp.abs(a), "relu(log r) |A|"),
    "rise square |A|": Term(lambda d, r, a, p: jax.nn.relu(d) ** 2 * jnp.abs(a), "relu(log r)^2 |A|"),
}


@pytree
class ClosedForm:
    """A drift written down: for each sign of the advantage a sum of weighted terms."""

    good_terms: tuple[str, ...] = static(doc="terms of BASIS for A >= 0")
    bad_terms: tuple[str, ...] = static(doc="terms of BASIS for A < 0")
    good: Any = number(doc="f32[terms, 2], weight and parameter of each")
    bad: Any = number(doc="f32[terms, 2]")
    error: float = static(default=0.0, doc="root mean square error over that of no drift at all")

    def __call__(self, log_ratio: Array, advantage: Array, context: Mapping[str, PyTree]) -> Array:
        """Return D, f32[N], of log_ratio f32[N] and advantage f32[N]."""
        ratio = ratio_of(log_ratio)

        def side(names: tuple[str, ...], numbers: Any) -> Array:
            parts = [
                numbers[i][0] * BASIS[name].function(log_ratio, ratio, advantage, numbers[i][1])
                for i, name in enumerate(names)
            ]
            return sum(parts, jnp.zeros_like(log_ratio))

        return jnp.where(advantage >= 0, side(self.good_terms, self.good), side(self.bad_terms, self.bad))

    def text(self) -> str:
        """Return the form in two lines, and its error."""
        sides = (("A >= 0", self.good_terms, self.good), ("A <  0", self.bad_terms, self.bad))
        lines = []
        for name, terms, numbers in sides:
            parts = [
                f"{float(numbers[i][0]):.3g} {BASIS[term].text.format(p=f'{float(numbers[i][1]):.3g}')}"
                for i, term in enumerate(terms)
            ]
            lines.append(f"{name}: D = {' + '.join(parts) or '0'}")
        return "\n".join([*lines, f"relative error {self.error:.1%}"])


def distill(objective: Objective, spread: float = 1.0, advantage: float = 3.0) -> ClosedForm:
    """Fit a closed form to the drift r A + loss of an objective, least squares on a grid.

    For each sign of the advantage it takes the term of `BASIS` that fits best, with the best weight and parameter, then
    a second one if that halves the error.

    Args:
      objective: (log_ratio[N], advantage[N], context) -> loss [N].
      spread: log-ratios from -spread to spread.
      advantage: advantages from -advantage to advantage.
    """
    from purerl.evolution.plot import surface

    d = np.linspace(-spread, spread, 81, dtype=np.float32)
    a = np.linspace(-advantage, advantage, 60, dtype=np.float32)  # even: leaves out 0, where the drift is unknown
    drift = surface(objective, d, a).drift.astype(np.float64)
    grid = [np.broadcast_to(x, drift.shape) for x in (d, np.exp(d), a[:, None])]
    fits = []
    for side in (a >= 0, a < 0):
        fits.append(_fit([x[side].reshape(-1) for x in grid], drift[side].reshape(-1)))
    residual = np.sqrt(np.mean([fit.error**2 for fit in fits]))
    size = np.sqrt(np.mean(drift**2))
    return ClosedForm(
        good_terms=fits[0].names,
        bad_terms=fits[1].names,
        good=fits[0].numbers.astype(np.float32),
        bad=fits[1].numbers.astype(np.float32),
        error=float(residual / size) if size else 0.0,
    )


class _Fit(NamedTuple):
    names: tuple[str, ...]
    numbers: np.ndarray  # f64[terms, 2], weights and parameters
    error: float  # root mean square


def _fit(points: list[np.ndarray], drift: np.ndarray) -> _Fit:
    """Return the sum of the fewest terms that fits well enough."""
    values = {name: _values(term, points) for name, term in BASIS.items()}
    best = _Fit(names=(), numbers=np.zeros((0, 2)), error=float(np.sqrt(np.mean(drift**2))))
    enough = 1e-3 * best.error
    while len(best.names) < TERMS and best.error > enough:
        fitted = [_value(BASIS[name], points, p) for name, (_, p) in zip(best.names, best.numbers, strict=True)]
        tried = [
            (_weigh([*fitted, column], drift)[1], name, scale)
            for name, (scales, columns) in values.items()
            for scale, column in zip(scales, columns, strict=True)
        ]
        _, name, scale = min(tried)
        more = _refine((*best.names, name), np.append(best.numbers[:, 1], scale), points, drift)
        if more.error > WORTH * best.error:
            break
        best = more
    return best


def _refine(names: tuple[str, ...], scales: np.ndarray, points: list[np.ndarray], drift: np.ndarray) -> _Fit:
    """Improve the fit by moving all parameters from their current values, each time with the best weights."""
    from scipy.optimize import minimize

    def columns(log_scales: np.ndarray) -> list[np.ndarray]:
        return [_value(BASIS[name], points, np.exp(p)) for name, p in zip(names, log_scales, strict=True)]

    found = minimize(
        lambda x: _weigh(columns(x), drift)[1],
        np.log(scales),
        method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-9},
    )
    weights, error = _weigh(columns(found.x), drift)
    return _Fit(names=names, numbers=np.stack([weights, np.exp(found.x)], axis=1), error=error)


def _weigh(columns: list[np.ndarray], drift: np.ndarray) -> tuple[np.ndarray, float]:
    """Return (the best non-negative weights, the root mean square error)."""
    from scipy.optimize import nnls

    weights, error = nnls(np.stack(columns, axis=1), drift)
    return weights, float(error / np.sqrt(drift.size))


def _values(term: Term, points: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return (parameters f64[k], the term at the points for each, f64[k, points])."""
    scales = SCALES if "{p}" in term.text else np.ones(1)
    return scales, np.stack([_value(term, points, scale) for scale in scales])


def _value(term: Term, points: list[np.ndarray], scale: float) -> np.ndarray:
    log_ratio, ratio, advantage = map(jnp.asarray, points)
    return np.asarray(_jitted(term.function)(log_ratio, ratio, advantage, np.float32(scale)), np.float64)


@functools.cache
def _jitted(function: TermFunction) -> TermFunction:
    return jax.jit(function)


def _bend(x: Array, scale: Any) -> Array:
    """Return relu(x - scale tanh(x / scale))."""
    return jax.nn.relu(x - scale * jnp.tanh(x / scale))
