"""purerl itself, as one of those that are measured."""

from typing import Any

from protocol import compiled, last_tenth, serve


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile the training of one seed, or of several side by side."""
    import jax

    import purerl
    from purerl import backend, registry

    factory, cls = registry.algorithm(task["algorithm"])
    settings = {name: tuple(x) if isinstance(x, list) else x for name, x in task["settings"].items()}
    train = purerl.make_train(factory, purerl.make(task["environment"]), cls(**settings), task["steps"])
    several = jax.vmap(train) if task["seeds"] > 1 else lambda keys: train(keys[0])
    keys = lambda seed: jax.random.split(jax.random.key(seed), task["seeds"])
    seconds, program = compiled(several, keys(0), backend.compiler_options())
    return seconds, lambda seed: program(keys(seed))


def read(done: Any) -> float:
    """Return the mean return over the end of the run, and over the seeds."""
    import numpy as np

    returns = np.asarray(done[1]["episode_return"])
    returns = np.moveaxis(returns, -1, 0)
    return last_tenth(returns, ~np.isnan(returns))


if __name__ == "__main__":
    serve(build, read)
