"""Matrix products with few outputs whose gradients are fast on a CPU.

XLA's CPU backend makes the gradient of a layer's weights by a routine for large matrices, which with few outputs spends
its time on rearranging the inputs. A product of a vector and a matrix for each output takes a third to a tenth of
the time: 1.4 us instead of 6.8 us for 128 samples, 64 inputs and 2 outputs, 22 us instead of 110 us for 1024, 64 and 6.
"""

import jax
import jax.numpy as jnp

from purerl.types import Array
from purerl.xla import backend, switches

FEW = 16  # outputs


def multiply(inputs: Array, kernel: Array, *_: object, **__: object) -> Array:
    """Return inputs @ kernel, as `lax.dot_general` does for `flax.linen.Dense`.

    Args:
      inputs: f32[..., n].
      kernel: f32[n, outputs].
    """
    if backend.name() != "cpu" or kernel.shape[1] > FEW or not switches.is_on("product"):
        return inputs @ kernel
    return _with_fast_gradient(inputs, kernel)


@jax.custom_vjp
def _with_fast_gradient(inputs: Array, kernel: Array) -> Array:
    return inputs @ kernel


def _forward(inputs: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return inputs @ kernel, (inputs, kernel)


def _backward(saved: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    inputs, kernel = saved
    rows, columns = inputs.reshape(-1, kernel.shape[0]), gradient.reshape(-1, kernel.shape[1])
    of_kernel = jnp.stack([columns[:, i] @ rows for i in range(kernel.shape[1])], axis=1)
    return gradient @ kernel.T, of_kernel


_with_fast_gradient.defvjp(_forward, _backward)
