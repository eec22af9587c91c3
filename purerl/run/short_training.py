"""A short training run without a folder, a display or evaluations, to check that an environment works in training."""

import jax
import numpy as np

from purerl.loop.train import whole_updates
from purerl.run.plan import made
from purerl.settings.runs import Settings
from purerl.xla import backend


def train(run: Settings) -> None:
    """Train one agent, in one compiled program if the loop is compiled.

    Raises:
      InputError: if the run is not possible.
      FloatingPointError: if a metric of the algorithm is not finite.
    """
    num_updates, key = whole_updates(run.config), jax.random.key(run.options.seed)
    trainer = made(run).trainer()
    if not trainer.pure:
        state, each = trainer.init(key), []
        for _ in range(num_updates):
            state, metrics = trainer.step(state)
            each.append(metrics.algorithm)
        trainer.close()
    else:
        update = lambda state, _: trainer.step(state)
        whole = lambda key: jax.lax.scan(update, trainer.init(key), None, num_updates)[1].algorithm
        each = backend.jit(whole, graphs=True)(key)
    for path, leaf in jax.tree.leaves_with_path(jax.device_get(each)):
        if not np.isfinite(leaf).all():
            raise FloatingPointError(f"the metric {jax.tree_util.keystr(path[-1:], simple=True)} is not finite")
