"""The value function of the outer loss, learned along with an agent from the same rollouts."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from purerl.functional import masked
from purerl.functional.returns import gae
from purerl.networks.encoder import NetworkConfig, encoder
from purerl.networks.torsos import apply, dense
from purerl.networks.torsos import init as init_layer
from purerl.optim.optimizers import apply_gradients
from purerl.spaces import Space
from purerl.types import Array, Key, PyTree, Rollout

LEARNING_RATE = 3e-3  # Adam's
GAE_LAMBDA = 0.95


class BaselineState(NamedTuple):
    """The state of a baseline."""

    params: PyTree
    opt_state: PyTree


class Baseline(NamedTuple):
    """A value function as pure functions."""

    init: Callable[[Key], BaselineState]
    value: Callable[[BaselineState, PyTree], Array]  # (state, observation [T, B, ...]) -> f32[T, B]
    learn: Callable[[BaselineState, Rollout], tuple[BaselineState, Array]]
    # (state, rollout [T, B]) -> (state after a step, standardized advantages f32[T, B] by the state before it)


def baseline(space: Space, config: NetworkConfig) -> Baseline:
    """Return a value function of observations, with the hidden layers of a config.

    It is regressed on the lambda return, and its advantages come from generalized advantage estimation.
    """
    base = encoder(space, config)
    head = dense(1, 1.0, initializer=config.initializer)
    optimizer = optax.adam(LEARNING_RATE)

    def init(key: Key) -> BaselineState:
        key_body, key_head = jax.random.split(key)
        params = {"body": base.init(key_body), "head": init_layer(head, key_head, jnp.zeros(base.size))}
        return BaselineState(params=params, opt_state=optimizer.init(params))

    def value_of(params: PyTree, observation: PyTree) -> Array:
        features, _ = base.step(params["body"], (), observation)
        return apply(head, params["head"], features)[..., 0]

    def learn(state: BaselineState, rollout: Rollout) -> tuple[BaselineState, Array]:
        value, next_value = map(partial(value_of, state.params), (rollout.observation, rollout.next_observation))
        advantage = gae(
            rollout.reward,
            value,
            next_value,
            terminated=rollout.terminated,
            done=rollout.done,
            discount=config.discount,
            gae_lambda=GAE_LAMBDA,
        )
        target = value + advantage

        def loss(params: PyTree) -> Array:
            return 0.5 * masked.mean((value_of(params, rollout.observation) - target) ** 2, rollout.mask)

        params, opt_state = apply_gradients(optimizer, jax.grad(loss)(state.params), state.opt_state, state.params)
        return BaselineState(params=params, opt_state=opt_state), masked.standardize(advantage, rollout.mask)

    return Baseline(init=init, value=lambda state, observation: value_of(state.params, observation), learn=learn)
