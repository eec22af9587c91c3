"""Programs that must agree to the last bit."""

import jax

EXACT = {"xla_backend_optimization_level": 1}  # at 0, two programs round the same sum in other orders


def jit_exactly(function, **options):
    """Return `jax.jit(function)`, compiled so that two programs of the same operations give the same bits."""
    return jax.jit(function, compiler_options=EXACT if jax.default_backend() == "cpu" else None, **options)
