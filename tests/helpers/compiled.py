"""Functions compiled as one program: for bit-identical results, or instead of compiling each operation."""

import jax

EXACT = {"xla_backend_optimization_level": 1}  # at 0, two programs round the same sum in other orders


def jit_exactly(function, **options):
    """Return `jax.jit(function)`, compiled so that two programs with the same operations give bit-identical results."""
    return jax.jit(function, compiler_options=EXACT if jax.default_backend() == "cpu" else None, **options)


def each_compiled(record, *names):
    """Return a record of functions, these or all compiled: alone, each of their operations takes 25 ms to compile."""
    return record._replace(**{name: jax.jit(getattr(record, name)) for name in names or record._fields})
