"""Counts the arithmetic operations of a program in its trace, for any machine."""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVarTuple

import jax
from jax.interpreters import partial_eval

from purerl.types import PyTree

Ts = TypeVarTuple("Ts")

PRODUCTS = ("dot_general", "conv_general_dilated")
MOVES = frozenset(
    {  # these move or rename numbers and compute none
        "broadcast_in_dim",
        "concatenate",
        "convert_element_type",
        "bitcast_convert_type",
        "copy",
        "copy_p",
        "device_put",
        "dynamic_slice",
        "dynamic_update_slice",
        "expand_dims",
        "gather",
        "iota",
        "optimization_barrier",
        "pad",
        "random_unwrap",
        "random_wrap",
        "reshape",
        "rev",
        "scatter",
        "select_and_gather_add",
        "slice",
        "split",
        "squeeze",
        "stop_gradient",
        "transpose",
    }
)


def operations(function: Callable[[*Ts], PyTree], *args: *Ts) -> float:
    """Return the number of arithmetic operations of a call; a multiplication and an addition count as two.

    Products and convolutions are counted exactly, other arithmetic once per number of its result, or of its argument in
    a reduction. The most expensive side of a branch counts; the body of a `while` of unknown length counts once.
    """
    return _count(_trace(function, args))


def products(function: Callable[[*Ts], PyTree], *args: *Ts) -> float:
    """Return the number of operations of matrix products and convolutions only; see `operations`."""
    return sum(times * _product(equation) for equation, times in each_product(function, *args))


def each_product(function: Callable[[*Ts], PyTree], *args: *Ts) -> list[tuple[Any, float]]:
    """Return (equation, how often it is computed) of each matrix product and convolution of a call's trace."""
    return _products(_trace(function, args), 1.0)


def _trace(function: Callable[[*Ts], PyTree], args: tuple[*Ts]) -> Any:
    """Return a call's program without dead code, which a compiler removes."""
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    return partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]


def _products(jaxpr: Any, times: float) -> list[tuple[Any, float]]:
    found: list[tuple[Any, float]] = []
    for equation in jaxpr.eqns:
        if equation.primitive.name in PRODUCTS:
            found.append((equation, times))
            continue
        repeated = times * equation.params.get("length", 1)
        inside = [_products(jaxpr, repeated) for jaxpr in _inside(equation.params)]
        if equation.primitive.name == "cond":
            inside = [max(inside, key=lambda branch: sum(n * _product(product) for product, n in branch))]
        found += [product for part in inside for product in part]
    return found


def _product(equation: Any) -> float:
    """Count the operations of a product or a convolution."""
    params = equation.params
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        inner = math.prod(equation.invars[0].aval.shape[i] for i in contracted)
        return 2.0 * _size(equation.outvars) * inner
    kernel = equation.invars[1].aval.shape
    features = kernel[params["dimension_numbers"].rhs_spec[0]]
    return 2.0 * _size(equation.outvars) * math.prod(kernel) / features


def _count(jaxpr: Any) -> float:
    """Count all operations."""
    return sum(_equation(equation) for equation in jaxpr.eqns)


def _equation(equation: Any) -> float:
    name, params = equation.primitive.name, equation.params
    if name in PRODUCTS:
        return _product(equation)
    inside = list(_inside(params))
    if name == "cond":
        return max(_count(jaxpr) for jaxpr in inside)
    if inside:
        return float(params.get("length", 1)) * sum(_count(jaxpr) for jaxpr in inside)
    if name in MOVES:
        return 0.0
    if name == "sort":
        size = _size(equation.invars[:1])
        return size * max(math.log2(max(equation.invars[0].aval.shape[params["dimension"]], 2)), 1.0)
    return float(_size(equation.invars) if name.startswith(("reduce", "arg", "cum")) else _size(equation.outvars))


def _inside(params: dict[str, Any]) -> Iterator[Any]:
    """Yield the programs that an equation calls."""
    for value in params.values():
        for entry in value if isinstance(value, tuple | list) else (value,):
            if hasattr(entry, "eqns"):
                yield entry
            elif hasattr(entry, "jaxpr") and hasattr(entry.jaxpr, "eqns"):
                yield entry.jaxpr


def _size(variables: Any) -> int:
    return sum(math.prod(x.aval.shape) for x in variables)
