"""A training without a folder, a display or evaluations, to see that an environment can be learned on."""

from typing import Any

import jax
import numpy as np

from purerl.host import HostSettings, make_host_trainer
from purerl.host_environment import HostSource
from purerl.loop.train import make_trainer, whole_updates
from purerl.run.plan import algorithm_of
from purerl.settings.runs import Settings
from purerl.xla import backend


def train(run: Settings, env: Any) -> None:
    """Train one agent, in one compiled program where the environment runs in JAX, else serially.

    Args:
      run: the settings.
      env: its environment.

    Raises:
      InputError: if the run is not possible.
      FloatingPointError: if a metric of the algorithm is not finite.
    """
    factory, config = algorithm_of(run, env)
    num_updates, key = whole_updates(config), jax.random.key(run.options.seed)
    if isinstance(env, HostSource):
        on_host = make_host_trainer(factory, env, config, HostSettings(mode="serial"))
        state, each = on_host.init(key), []
        for _ in range(num_updates):
            state, metrics = on_host.step(state)
            each.append(metrics.algorithm)
        on_host.close()
    else:
        trainer = make_trainer(factory, env, config)
        update = lambda state, _: trainer.step(state)
        whole = lambda key: jax.lax.scan(update, trainer.init(key), None, num_updates)[1].algorithm
        each = backend.jit(whole, graphs=True)(key)
    for path, leaf in jax.tree.leaves_with_path(jax.device_get(each)):
        if not np.isfinite(leaf).all():
            raise FloatingPointError(f"the metric {jax.tree_util.keystr(path[-1:], simple=True)} is not finite")
