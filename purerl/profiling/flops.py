"""Counts the arithmetic operations of a program in its trace, for any machine."""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVarTuple

import jax
from jax.interpreters import partial_eval

from purerl.types import PyTree

Ts = TypeVarTuple("Ts")

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
    return _count(_trace(function, args), 1.0)


def products(function: Callable[[*Ts], PyTree], *args: *Ts) -> float:
    """Return the number of operations of matrix products and convolutions only; see `operations`."""
    return _count(_trace(function, args), 0.0)


def _trace(function: Callable[[*Ts], PyTree], args: tuple[*Ts]) -> Any:
    """Return a call's program without dead code, which a compiler removes."""
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    return partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]


def _count(jaxpr: Any, others: float) -> float:
    """Count the operations, with this weight on everything except products."""
    return sum(_equation(equation, others) for equation in jaxpr.eqns)


def _equation(equation: Any, others: float) -> float:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        inner = math.prod(equation.invars[0].aval.shape[i] for i in contracted)
        return 2.0 * _size(equation.outvars) * inner
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval.shape
        features = kernel[params["dimension_numbers"].rhs_spec[0]]
        return 2.0 * _size(equation.outvars) * math.prod(kernel) / features
    inside = list(_inside(params))
    if name == "cond":
        return max(_count(jaxpr, others) for jaxpr in inside)
    if inside:
        return float(params.get("length", 1)) * sum(_count(jaxpr, others) for jaxpr in inside)
    if name in MOVES or not others:
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
