"""A function of one small environment, as operations on vectors that have a lane for each of many environments.

Pallas compiles neither arrays of four numbers nor random keys for a GPU. Here each number of an array is a vector, and
a key is two vectors. What moves numbers within an array costs nothing then, and what computes is an operation on
vectors for each number.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from jax.interpreters.partial_eval import dce_jaxpr

from purerl import prng
from purerl.types import PyTree

Lanes = np.ndarray  # objects: a vector [L] or a number for each number of an array, a pair of them for each key
CALLS = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call")
FOLDS = {
    "reduce_sum": jnp.add,
    "reduce_max": jnp.maximum,
    "reduce_min": jnp.minimum,
    "reduce_and": jnp.logical_and,
    "reduce_or": jnp.logical_or,
}
EACH = (  # compute each number of a result from the same number of the arguments
    "add sub mul div rem max min neg abs sign floor ceil exp exp2 log log1p expm1 tanh sin cos sqrt rsqrt cbrt erf "
    "logistic pow integer_pow square atan2 clamp is_finite eq ne lt le gt ge and or not xor shift_left "
    "shift_right_logical shift_right_arithmetic convert_element_type bitcast_convert_type select_n stop_gradient copy"
)
GENERATOR = {  # the generator of purerl.prng, as functions of a key's words
    "random_bits": lambda words, bit_width, shape: prng._random_bits(words, bit_width, shape),
    "random_split": lambda words, shape: prng._split(words, shape),
    "random_fold_in": lambda words, data: prng._fold_in(words, data),
}


class Function:
    """A function of trees of arrays that has been traced for one environment."""

    def __init__(self, function: Callable[..., PyTree], *shapes: PyTree):
        """Trace it.

        Args:
          function: takes trees of arrays and of keys of the fast generator.
          shapes: the shapes of its arguments.
        """
        given, structure = jax.tree.flatten(shapes)
        closed, out = jax.make_jaxpr(lambda *x: function(*jax.tree.unflatten(structure, x)), return_shape=True)(*given)
        jaxpr, self.used = dce_jaxpr(closed.jaxpr, True)  # on which leaves of the arguments a result depends
        self.closed, self.structure = ClosedJaxpr(jaxpr, closed.consts), jax.tree.structure(out)

    def __call__(self, *arguments: Any) -> PyTree:
        """Return the results as lanes, given the lanes of each leaf of the arguments; unused leaves may be anything."""
        needed = [lanes for lanes, used in zip(arguments, self.used, strict=True) if used]
        return jax.tree.unflatten(self.structure, _evaluate(self.closed, needed))


def from_vectors(vectors: Iterator[Any], shape: tuple[int, ...], is_key: bool) -> Lanes:
    """Return the lanes of an array from as many of the next vectors as it has numbers; a key has two."""
    lanes = np.empty((*shape, 2) if is_key else shape, object)
    for index in np.ndindex(lanes.shape):
        lanes[index] = next(vectors)
    return _keys(lanes) if is_key else lanes


def to_vectors(lanes: Lanes, dtype: Any, length: int) -> list[Any]:
    """Return the vectors [length] of an array's lanes; the inverse of `from_vectors`."""
    is_key = jnp.issubdtype(dtype, jax.dtypes.extended)
    values, dtype = (_words(lanes), jnp.uint32) if is_key else (lanes, dtype)
    return [jnp.broadcast_to(jnp.asarray(value, dtype), (length,)) for value in values.reshape(-1)]


def _evaluate(closed: Any, arguments: list[Lanes]) -> list[Lanes]:
    jaxpr = closed.jaxpr
    known: dict[Any, Lanes] = dict(zip(jaxpr.constvars, map(_numbers, closed.consts), strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))
    read = lambda atom: _numbers(atom.val) if isinstance(atom, Literal) else known[atom]
    for equation in jaxpr.eqns:
        known |= dict(zip(equation.outvars, _apply(equation, *map(read, equation.invars)), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: Any, *arguments: Lanes) -> list[Lanes]:
    """Return the results of an operation."""
    name, params, shape = equation.primitive.name, equation.params, equation.outvars[0].aval.shape
    if name in CALLS:
        return _evaluate(params.get("jaxpr", params.get("call_jaxpr")), list(arguments))
    if name == "optimization_barrier":
        return list(arguments)
    if name in GENERATOR:
        return [_random(name, params, *arguments)]
    if name in FOLDS:
        return [_folded(FOLDS[name], arguments[0], params["axes"])]
    match name:
        case "random_wrap":
            return [_keys(*arguments)]
        case "random_unwrap":
            return [_words(*arguments)]
        case "broadcast_in_dim":
            sides = dict(zip(params["broadcast_dimensions"], arguments[0].shape, strict=True))
            return [np.broadcast_to(arguments[0].reshape([sides.get(i, 1) for i in range(len(shape))]), shape)]
        case "reshape" | "squeeze":
            return [arguments[0].reshape(shape)]
        case "slice":
            steps = params["strides"] or [1] * len(shape)
            cuts = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
            return [arguments[0][tuple(slice(*cut) for cut in cuts)]]
        case "concatenate":
            return [np.concatenate(arguments, params["dimension"])]
        case "stack":
            return [np.stack(arguments, params["axis"])]
        case "transpose":
            return [arguments[0].transpose(params["permutation"])]
        case "rev":
            return [np.flip(arguments[0], params["dimensions"])]
        case "iota":
            return [_numbers(np.indices(shape)[params["dimension"]].astype(params["dtype"]))]
        case "round":  # Pallas does not compile it; halves, which it rounds to even numbers, are rounded up
            return [_each(lambda x: jnp.floor(x + 0.5), *arguments)]
        case _ if name in EACH.split():
            return [_each(lambda *x: equation.primitive.bind(*x, **params), *arguments)]
    raise NotImplementedError(f"the operation {name} over lanes")


def _each(function: Callable[..., Any], *arguments: Lanes) -> Lanes:
    """Return a function's result for each number, as vectors if one of its arguments is a vector."""
    lanes = np.broadcast_arrays(*arguments)
    result = np.empty(lanes[0].shape, object)
    for index in np.ndindex(result.shape):
        values = [part[index] for part in lanes]
        length = max(map(np.shape, values), key=len)
        result[index] = function(*(jnp.broadcast_to(jnp.asarray(value), length) for value in values))
    return result


def _folded(function: Callable[[Any, Any], Any], x: Lanes, axes: tuple[int, ...]) -> Lanes:
    """Return a reduction over some axes, one number after the other."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), -1)
    return _filled(rows.shape[:-1], lambda index: reduce(function, rows[index]))


def _random(name: str, params: dict[str, Any], keys: Lanes, *more: Lanes) -> Lanes:
    """Return random words [*keys.shape, ...] or keys, as the generator computes them from the words of each key."""
    shapes = [jax.ShapeDtypeStruct((2,), jnp.uint32), *[jax.ShapeDtypeStruct((), jnp.uint32)] * len(more)]
    closed = jax.make_jaxpr(lambda *x: GENERATOR[name](*x, **params))(*shapes)
    words = _words(keys)
    results = [
        _evaluate(closed, [words[index], *(_filled((), lambda _, x=part[index]: x) for part in more)])[0]
        for index in np.ndindex(keys.shape)
    ]
    together = np.stack(results).reshape(*keys.shape, *results[0].shape)
    return together if name == "random_bits" else _keys(together)


def _numbers(x: Any) -> Lanes:
    """Return an array as lanes that are the same for all environments."""
    return _filled(np.shape(x), np.asarray(x).__getitem__)


def _keys(words: Lanes) -> Lanes:
    """Return keys [...] from their words [..., 2]."""
    return _filled(words.shape[:-1], lambda index: tuple(words[index]))


def _words(keys: Lanes) -> Lanes:
    """Return the words [..., 2] of keys."""
    return _filled((*keys.shape, 2), lambda index: keys[index[:-1]][index[-1]])


def _filled(shape: tuple[int, ...], value: Callable[[tuple[int, ...]], Any]) -> Lanes:
    """Return lanes of a shape by their indices."""
    lanes = np.empty(shape, object)
    for index in np.ndindex(shape):
        lanes[index] = value(index)
    return lanes
