"""OPEN: an optimizer whose update is a small recurrent network, shared by all parameters of an agent."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from purerl.functional.counters import increment
from purerl.optim.optimizers import GradientPlan
from purerl.types import Array, Key, PyTree, number, pytree, static

DECAYS = (0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)  # decays of the averages of the gradient
FEATURES = 2 * (1 + len(DECAYS)) + 5
UNITS, WIDTH = 8, 16


class OPENState(NamedTuple):
    """The optimizer's memory of each parameter."""

    steps: Array  # i32[], gradient steps so far
    key: Key
    averages: PyTree  # f32[len(DECAYS), ...] per array
    carry: PyTree  # f32[..., UNITS] per array


@pytree
class OPEN:
    """A learned optimizer of 1,211 parameters, a factory of optax transformations: `partial(ppo, optimizer=OPEN...)`.

    For each parameter it sees the value, the gradient and six running averages of it, as sign and logarithm. It also
    sees the progress of the run and of the update, the depth of the layer, and dormancy. A GRU of 8 units and two
    layers of 16 map these inputs to m, e and s, and the update is -alpha (m exp(beta e) + alpha_s s noise). An optax
    transformation cannot compute dormancy, which counts as 0. The original adds the noise to the actor only; this
    version adds it to all parameters.

    Source: Goldie et al. (2024), "Can learned optimization make reinforcement learning less difficult?",
    arXiv:2407.07082.
    """

    network: Any = number(doc="the weights, by layer")
    step: float = static(default=1e-3, doc="alpha and beta of the paper")
    noise: float = static(default=1e-3, doc="alpha_s of the paper")

    @staticmethod
    def create(key: Key) -> "OPEN":
        """Sample the weights; the last layer is 0, so initially the optimizer makes no update."""
        draw = jax.nn.initializers.lecun_normal()
        keys = jax.random.split(key, 4)
        return OPEN(
            network={
                "input": draw(keys[0], (FEATURES, 3 * UNITS)),
                "input_bias": jnp.zeros(3 * UNITS),
                "hidden": draw(keys[1], (UNITS, 3 * UNITS)),
                "hidden_bias": jnp.zeros(UNITS),
                "dense_0": draw(keys[2], (UNITS, WIDTH)),
                "bias_0": jnp.zeros(WIDTH),
                "scale_0": jnp.ones(WIDTH),
                "shift_0": jnp.zeros(WIDTH),
                "dense_1": draw(keys[3], (WIDTH, WIDTH)),
                "bias_1": jnp.zeros(WIDTH),
                "scale_1": jnp.ones(WIDTH),
                "shift_1": jnp.zeros(WIDTH),
                "output": jnp.zeros((WIDTH, 3)),
                "output_bias": jnp.zeros(3),
            }
        )

    def __call__(self, plan: GradientPlan) -> optax.GradientTransformation:
        """Return the optax transformation for a run; its `update` needs the parameters."""

        def init(params: PyTree) -> OPENState:
            averages = jax.tree.map(lambda p: jnp.zeros((len(DECAYS), *p.shape)), params)
            carry = jax.tree.map(lambda p: jnp.zeros((*p.shape, UNITS)), params)
            return OPENState(steps=jnp.int32(0), key=_key_of(params), averages=averages, carry=carry)

        def update(gradients: PyTree, state: OPENState, params: PyTree | None = None) -> tuple[PyTree, OPENState]:
            assert params is not None
            decays = jnp.array(DECAYS)
            blend = lambda m, g: jax.vmap(lambda d, x: d * x + (1.0 - d) * g)(decays, m)
            averages = jax.tree.map(blend, state.averages, gradients)
            count = state.steps.astype(jnp.float32)
            within = (state.steps % plan.steps_per_update).astype(jnp.float32) / plan.steps_per_update
            leaves, structure = jax.tree.flatten(gradients)
            columns = [structure.flatten_up_to(tree) for tree in (params, averages, state.carry)]
            results = []
            for i, (g, p, m, h) in enumerate(zip(leaves, *columns, strict=True)):
                depth = jnp.float32((i + 1) / len(leaves))
                shared = jnp.stack([count / plan.num_steps, within, depth, jnp.float32(0)])
                features = _features(g, p, m, shared)
                noise = jax.random.normal(jax.random.fold_in(jax.random.fold_in(state.key, state.steps), i), g.shape)
                results.append(self._one(features, h, noise))
            updates, carry = (jax.tree.unflatten(structure, part) for part in zip(*results, strict=True))
            return updates, OPENState(steps=increment(state.steps), key=state.key, averages=averages, carry=carry)

        return optax.GradientTransformation(init, update)  # type: ignore[arg-type]

    def _one(self, features: Array, carry: Array, noise: Array) -> tuple[Array, Array]:
        """Return (the update, the memory) for the parameters of one array."""
        w = self.network
        of_input = features @ w["input"] + w["input_bias"]
        of_memory = carry @ w["hidden"]
        reset, keep, new = jnp.split(of_input, 3, axis=-1)
        reset_memory, keep_memory, new_memory = jnp.split(of_memory, 3, axis=-1)
        reset, keep = jax.nn.sigmoid(reset + reset_memory), jax.nn.sigmoid(keep + keep_memory)
        new = jnp.tanh(new + reset * (new_memory + w["hidden_bias"]))
        carry = (1.0 - keep) * new + keep * carry
        x = carry
        for i in range(2):
            x = x @ w[f"dense_{i}"] + w[f"bias_{i}"]
            x = (x - jnp.mean(x, -1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-6)
            x = jax.nn.relu(x * w[f"scale_{i}"] + w[f"shift_{i}"])
        size, exponent, spread = jnp.moveaxis(x @ w["output"] + w["output_bias"], -1, 0)
        return -self.step * (size * jnp.exp(self.step * exponent) + self.noise * spread * noise), carry


def _key_of(params: PyTree) -> Key:
    """Return a key that the initial parameters determine, so that each seed has its own noise."""
    bits = [jnp.sum(jax.lax.bitcast_convert_type(p, jnp.uint32), dtype=jnp.uint32) for p in jax.tree.leaves(params)]
    return jax.random.key(jnp.sum(jnp.stack(bits), dtype=jnp.uint32))


def _features(gradient: Array, parameter: Array, averages: Array, shared: Array) -> Array:
    """Return f32[..., FEATURES]."""
    seen = jnp.concatenate([gradient[None], averages])
    logs = jnp.clip(jnp.log(jnp.abs(seen) + 1e-30) / math.log(1e10), -1.0, 1.0)  # about -1 for nothing, 0 for 1
    own = jnp.concatenate([jnp.sign(seen), logs, parameter[None]])
    rest = jnp.broadcast_to(shared.reshape(-1, *(1,) * gradient.ndim), (shared.size, *gradient.shape))
    return jnp.moveaxis(jnp.concatenate([own, rest]), 0, -1)
