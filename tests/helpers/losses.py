"""Sample points and the losses and gradients of objectives and drifts at them."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.functional.drifts import DPO, LPO, ClipDrift, KLPenalty, RecoveryDrift, SquaredDrift, valid

RNG = np.random.default_rng(0)


POINTS = RNG.normal(0, 0.5, 4096).astype(np.float32), RNG.normal(0, 1.5, 4096).astype(np.float32)


def moved(tree, seed, scale=0.3):
    """Return a pytree with noise in its parameters."""
    leaves, structure = jax.tree.flatten(tree)
    rng = np.random.default_rng(seed)
    return jax.tree.unflatten(structure, [x + scale * rng.normal(size=np.shape(x)).astype(np.float32) for x in leaves])


@jax.jit
def loss_and_gradient(objective, log_ratio, advantage):
    """Return (loss [N], its derivative with respect to each log-ratio [N])."""
    single = lambda d, a: objective(d[None], a[None], {})[0]
    return jax.vmap(jax.value_and_grad(single))(jnp.asarray(log_ratio), jnp.asarray(advantage))


KEY = jax.random.key(0)


WAVES = valid(lambda log_ratio, advantage, context: jnp.sin(3 * log_ratio) - advantage)


DRIFTS = {
    "clip": ClipDrift(),
    "dpo": DPO(),
    "kl": KLPenalty(),
    "squared": SquaredDrift(),
    "recovery": RecoveryDrift(curvature=0.5),
    "lpo at ppo": LPO.at_ppo(KEY, 16),
    "lpo from nothing": LPO.from_nothing(KEY, 16),
    "learned": moved(LPO.from_nothing(KEY, 16), 1),
    "valid network": valid(moved(LPO.from_nothing(KEY, 16), 2).network),
    "valid function": WAVES,
}
