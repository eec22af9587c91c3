"""Linear recurrences, h_t = a_t * h_{t-1} + b_t: a loop on a CPU, a parallel scan elsewhere.

A parallel scan takes 2 log2 T steps where a loop takes T, but does twice the work and is 2 log2 T times the program. On
two cores the loop was 1.8 times as fast for 1024 steps of 64 numbers and 4 environments (2.6 ms against 4.7, with the
gradient) and compiled in 0.3 s against 2.8.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl.types import Array
from purerl.xla import backend, switches


def linear_scan(
    a: Array, b: Array, begin: Array, done: Array, product: Callable[[Array, Array], Array] = jnp.multiply
) -> Array:
    """Return h after every step, f32[T, B, n].

    Args:
      a, b: f32[T, B, n].
      begin: h before the first step, f32[B, n].
      done: bool[T, B]; the state is 0 before the step that follows.
      product: a function that multiplies a by a, b or h; associative, and distributes over sums.

    Source: Blelloch (1990), Prefix sums and their applications; resets: Lu et al. (2023), arXiv:2303.03982.
    """
    follows = jnp.concatenate([jnp.zeros_like(done[:1]), done[:-1]])[..., None]
    a = jnp.where(follows, 0.0, a)
    if backend.name() == "cpu" and switches.is_on("linear_scan"):
        return _loop(a, b, begin, product)
    b = jnp.concatenate([b[:1] + product(a[:1], begin[None]), b[1:]])

    def after(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return product(second[0], first[0]), product(second[0], first[1]) + second[1]

    return jax.lax.associative_scan(after, (a, b))[1]


def _loop(a: Array, b: Array, begin: Array, product: Callable[[Array, Array], Array]) -> Array:
    def step(h: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        h = product(at[0], h) + at[1]
        return h, h

    return jax.lax.scan(step, begin, (a, b))[1]
