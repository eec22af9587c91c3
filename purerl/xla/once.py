"""What is done once: values that XLA computes once instead of in each of their consumers, functions traced once.

Reason: on a CPU XLA fuses a cheap producer into every consumer, and removes a barrier before it does. A sampled action
is computed again for each part of the state that a step returns. What a loop returns is in memory, if the compiler does
not know that the loop turns once. Measurement: random play of 2048 Pendulums on a CPU is 13 times as fast. Switch:
"once".
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from purerl.types import Key, PyTree
from purerl.xla import backend, switches

T = TypeVar("T", bound=PyTree)
F = TypeVar("F", bound=Callable[..., PyTree])
RARE = np.uint32(0x9E3779B9)  # first word of a key for which the same value is computed twice


def once(function: Callable[[Key], T], key: Key) -> T:
    """Return the result of a function of a key, which a CPU computes only once, however often it is used.

    Args:
      function: a function of the key; other values that it uses are constants of the loop.
      key: a typed PRNG key.
    """
    if backend.name() != "cpu" or not switches.is_on("once"):
        return function(key)
    turns = 1 + (jax.random.key_data(key).reshape(-1)[0] == RARE).astype(jnp.int32)
    start = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(function, key))
    turn = lambda state: (state[0] + 1, function(key))
    return jax.lax.while_loop(lambda state: state[0] < turns, turn, (jnp.int32(0), start))[1]


def traced_once(function: F) -> F:
    """Return a function that JAX traces once for each set of shapes, also where its shapes and its values are asked."""
    return jax.jit(function, inline=True)  # type: ignore[return-value]
