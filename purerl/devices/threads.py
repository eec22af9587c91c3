"""The number of CPU threads: one for programs with small matrix products, which several threads slow down.

XLA's CPU client gives all threads to every program. Where the products of a gradient step are small, waking the others
takes longer than the work: on two cores PPO with 4 x 128 steps per update ran 1.3 times as fast on one thread, PQN 1.3
and DQN 1.4 times; with 2048 x 32 steps two threads were 1.5 times as fast as one.
"""

import contextlib
import itertools
import math
import os
from collections.abc import Iterator, Mapping

import jax

from purerl import registry
from purerl.catalog.environments import ENVIRONMENTS
from purerl.types import Config, Environment

# Multiplications: one thread is faster at 8.6e6 (128 samples, 256 x 256 units), two at 1.7e7 (256 samples).
LIMIT = 1.2e7
VARIABLE = "PJRT_NPROC"  # how many threads XLA starts, at least one per device


@contextlib.contextmanager
def fitting(config: Config, environment: str, parameters: Mapping[str, object]) -> Iterator[None]:
    """Start JAX, inside this context, with as many threads as a training run can use.

    Without effect once JAX has started, where the variable is set, and for environments of other packages.

    Args:
      config: the algorithm's settings.
      environment: the id.
      parameters: the environment's.
    """
    if VARIABLE in os.environ or "NPROC" in os.environ or environment not in ENVIRONMENTS:
        yield
        return
    count = multiplications(config, registry.environment(environment, parameters))
    if count is None or count > LIMIT:
        yield
        return
    os.environ[VARIABLE] = "1"
    try:
        yield
        jax.devices()
    finally:
        del os.environ[VARIABLE]


def multiplications(config: Config, env: Environment) -> float | None:
    """Return the multiplications of one gradient step through a network's body; JAX need not have started.

    None if the sizes of layers do not determine it: for images, which pass through convolutions, and groups of agents.
    """
    sizes, network = getattr(config, "hidden_sizes", None), getattr(config, "network", "auto")
    seen = jax.tree.leaves(jax.eval_shape(lambda: env.observation_space.zeros()))
    if sizes is None or not (network == "mlp" or (network == "auto" and all(len(x.shape) < 2 for x in seen))):
        return None
    layers = (sum(math.prod(x.shape) for x in seen), *sizes)
    return config.samples_per_gradient * float(sum(a * b for a, b in itertools.pairwise(layers)))
