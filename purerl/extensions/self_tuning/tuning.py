r"""An algorithm that tunes some numbers of its own config by meta-gradients, within one lifetime.

    theta' = update(theta, tau; eta),        z' = d theta' / d eta + decay (d theta' / d theta) z
    eta    moves along  -z^T grad L(theta, tau'),   tau' the next rollout, collected by theta

L is the loss of an actor-critic with the config's first numbers: -mean(log pi(a|s) A) - entropy_coefficient H. A number
between 0 and 1 is tuned as its logit, a positive one as its logarithm. z is made in forward mode, one tangent for each
number, so that no rollout is kept.

Source: Xu et al. (2018), arXiv:1805.09801; several numbers of an actor-critic as Zahavy et al. (2020),
arXiv:2002.12928.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from purerl.functional import masked
from purerl.functional.returns import gae
from purerl.optim.optimizers import apply_gradients, differentiable_steps
from purerl.types import Algorithm, AlgorithmFactory, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout
from purerl.xla import switches
from purerl.xla.trees import split_floats, strong

NO_FORWARD_MODE = ("packing", "product", "recurrence")  # workarounds whose functions have no forward derivative


class Scale(NamedTuple):
    """The map between a number in a range and an unbounded number, which is tuned."""

    free: Callable[[Any], Array]
    bound: Callable[[Array], Array]
    range: str  # range of the numbers that may be tuned, for messages
    holds: Callable[[Any], Any]  # number -> whether it is in the range


POSITIVE = Scale(free=jnp.log, bound=jnp.exp, range="above 0", holds=lambda x: x > 0)
UNIT = Scale(
    free=lambda x: jnp.log(x) - jnp.log1p(-x),
    bound=jax.nn.sigmoid,
    range="above 0 and below 1",
    holds=lambda x: (x > 0) & (x < 1),
)
SCALES = {
    "discount": UNIT,
    "gae_lambda": UNIT,
    "entropy_coefficient": POSITIVE,
    "value_coefficient": POSITIVE,
    "clip_epsilon": POSITIVE,
    "learning_rate": POSITIVE,
}


class TunedAgent(NamedTuple):
    """An agent, and the numbers that it tunes."""

    agent: PyTree
    free: Array  # f32[k], the numbers, each as its `Scale` has it
    opt_state: PyTree
    trace: list[Array]  # z: [k, ...] of each float array of the agent


def self_tuned(factory: AlgorithmFactory, names: Sequence[str], learning_rate: Any, decay: Any) -> AlgorithmFactory:
    """Return an algorithm that tunes numbers of its config.

    Args:
      factory: (spec, config) -> Algorithm, with `values` and `likelihood`.
      names: the numbers to tune, keys of `SCALES`.
      learning_rate: Adam's learning rate for the numbers on their scales.
      decay: the fraction of the trace z that an update keeps.
    """
    optimizer = optax.adam(learning_rate)
    scales = [SCALES[name] for name in names]

    def tuned(spec: EnvironmentSpec, config: Any) -> Algorithm:
        first = factory(spec, config)
        estimate = first.values
        assert estimate is not None

        def init(key: Key) -> TunedAgent:
            agent = first.init(key)
            numbers = (getattr(config, name) for name in names)
            free = jnp.stack(
                [jnp.asarray(scale.free(jnp.float32(x))) for scale, x in zip(scales, numbers, strict=True)]
            )
            trace = [jnp.zeros((len(names), *x.shape), x.dtype) for x in split_floats(agent)[0]]
            return strong(TunedAgent(agent=agent, free=free, opt_state=optimizer.init(free), trace=trace))

        def numbers_of(free: Array) -> dict[str, Array]:
            return {name: scale.bound(x) for name, scale, x in zip(names, scales, free, strict=True)}

        def update(old: TunedAgent, key: Key, rollout: Rollout) -> tuple[TunedAgent, Metrics]:
            floats, join = split_floats(old.agent)
            advantage = advantages(first, config, old.agent, rollout)
            slopes = jax.grad(lambda floats: outer_loss(first, config, join(floats), rollout, advantage))(floats)
            gradient = sum(jnp.sum(z * g, axis=range(1, z.ndim)) for z, g in zip(old.trace, slopes, strict=True))
            gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
            free, opt_state = apply_gradients(optimizer, gradient, old.opt_state, old.free)

            def learn(floats: list[Array], free: Array) -> tuple[list[Array], tuple[PyTree, Metrics]]:
                algorithm = factory(spec, dataclasses.replace(config, **numbers_of(free)))
                agent, metrics = algorithm.update(join(floats), key, rollout)
                return split_floats(agent)[0], (agent, metrics)

            def along(trace: list[Array], direction: Array) -> tuple[PyTree, list[Array]]:
                start = [decay * jnp.where(jnp.isfinite(z), z, 0.0) for z in trace]  # one overflow is not kept
                _, tangent, aux = jax.jvp(learn, (floats, free), (start, direction), has_aux=True)
                return aux, tangent

            with differentiable_steps(), switches.off(*NO_FORWARD_MODE):
                directions = jnp.eye(len(names), dtype=free.dtype)
                (agent, metrics), trace = jax.vmap(along, out_axes=(None, 0))(old.trace, directions)
            now = {f"tuned_{name}": x for name, x in numbers_of(free).items()}
            return TunedAgent(agent=agent, free=free, opt_state=opt_state, trace=trace), metrics | now

        return Algorithm(
            init=init,
            initial_carry=first.initial_carry,
            act=lambda agent, *rest: first.act(agent.agent, *rest),
            update=update,
            values=lambda agent, rollout: estimate(agent.agent, rollout),
        )

    return tuned


def advantages(algorithm: Algorithm, config: Any, agent: PyTree, rollout: Rollout) -> Array:
    """Return the standardized advantages of a rollout, f32[T, B], from the agent's critic and the config's numbers."""
    assert algorithm.values is not None
    values = algorithm.values(agent, rollout)
    advantage = gae(
        values.reward,
        values.value,
        values.next_value,
        terminated=rollout.terminated,
        done=rollout.done,
        discount=config.discount,
        gae_lambda=config.gae_lambda,
    )
    return masked.standardize(advantage, rollout.mask)


def outer_loss(algorithm: Algorithm, config: Any, agent: PyTree, rollout: Rollout, advantage: Array) -> Array:
    """Return the loss that the numbers are tuned for, f32[]: the actor-critic loss of the agent on a rollout."""
    assert algorithm.likelihood is not None
    now = algorithm.likelihood(agent, rollout)
    loss = -masked.mean(now.log_prob * advantage, rollout.mask)
    return loss - config.entropy_coefficient * masked.mean(now.entropy, rollout.mask)
