"""Programs that are compiled as users' are, where two must agree to the last bit."""

import jax

# Without its optimizer LLVM rounds sums of products in one program otherwise than in another.
AS_FOR_USERS = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}


def jit_as_for_users(function, **options):
    """Return `jax.jit(function)`, on a CPU compiled with what the other tests leave out for speed."""
    return jax.jit(function, compiler_options=AS_FOR_USERS if jax.default_backend() == "cpu" else None, **options)
