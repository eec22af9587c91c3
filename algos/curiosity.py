"""Curiosity: a bonus for surprising observations, in addition to the environment's rewards.

RND predicts the output of a fixed random network for the next observation. ICM predicts the features of the next
observation from the current one's, and its features are trained to predict the action. The prediction error is
the bonus. It is divided by the running standard deviation of its returns and added to the reward, so any algorithm that
learns from rollouts can use it.
Source: RND: Burda et al. (2019), arXiv:1810.12894; ICM: Pathak et al. (2017), arXiv:1705.05363. Here one value function
learns the sum of both rewards, and the bonus also stops at the end of an episode.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from purerl.functional import masked
from purerl.functional.action_masks import without_global_state
from purerl.functional.distributions import action_head
from purerl.functional.normalize import ReturnScale, RunningStatistics
from purerl.networks.encoder import NetworkConfig, encoder
from purerl.networks.torsos import apply, dense
from purerl.networks.torsos import init as init_module
from purerl.optim.optimizers import apply_gradients
from purerl.spaces import Box, Dict
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout

CURIOSITIES = ("rnd", "icm")
FEATURES = 64  # number of predicted features
STEPS = 4  # gradient steps of a predictor per rollout
FORWARD_SHARE = 0.2  # weight of ICM's forward model in its loss
DISCOUNT = 0.99  # discount of the bonus's returns, whose standard deviation scales the bonus
LIMIT = 5.0  # bound of standardized observations


class Curiosity(NamedTuple):
    """The curiosity module's model of the environment."""

    params: PyTree  # parameters, from `Predictor.init`
    opt_state: PyTree
    statistics: RunningStatistics  # running statistics of observations
    scale: ReturnScale  # scale of the bonus


class Predictor(NamedTuple):
    """A measure of how surprising steps are; observations are standardized."""

    init: Callable[[Key], PyTree]  # key -> params
    surprise: Callable[[PyTree, Rollout], tuple[Array, Array]]
    # (params, rollout[...]) -> (bonus f32[...], loss f32[...] whose gradient reaches what learns)


def predictor(spec: EnvironmentSpec, config: NetworkConfig, kind: str) -> Predictor:
    """Return the predictor of a kind in `CURIOSITIES`, with torsos that the config describes."""
    return {"rnd": _rnd, "icm": _icm}[kind](spec, config)


def new_curiosity(key: Key, spec: EnvironmentSpec, config: NetworkConfig, kind: str, num_envs: int) -> Curiosity:
    """Return the curiosity's state before the first rollout of `num_envs` environments."""
    params = predictor(spec, config, kind).init(key)
    return Curiosity(
        params=params,
        opt_state=_adam(0.0).init(params),
        statistics=RunningStatistics.create(without_global_state(spec.observation_space).struct),
        scale=ReturnScale.create(num_envs),
    )


def with_bonus(
    curiosity: Curiosity,
    rollout: Rollout,
    spec: EnvironmentSpec,
    config: NetworkConfig,
    *,
    kind: str,
    coefficient: Array | float,
    learning_rate: Array | float,
) -> tuple[Curiosity, Rollout]:
    """Return (the state updated with a rollout, the rollout with the bonus added to its rewards).

    Args:
      curiosity: the state before the rollout.
      rollout: [T, B], with raw observations.
      spec: the environment's spaces.
      config: the settings of the torsos.
      kind: a name in `CURIOSITIES`.
      coefficient: the weight of the bonus.
      learning_rate: the learning rate of Adam.
    """
    model, seen = predictor(spec, config, kind), without_global_state
    statistics = curiosity.statistics.update(seen(rollout.next_observation), rollout.mask)
    standard = rollout._replace(
        observation=statistics.normalize(seen(rollout.observation), LIMIT),
        next_observation=statistics.normalize(seen(rollout.next_observation), LIMIT),
        carry=(),
        statistics=None,
    )
    bonus, _ = model.surprise(curiosity.params, standard)
    scale = curiosity.scale.update(bonus, jnp.zeros_like(rollout.done), DISCOUNT, rollout.mask)
    rollout = rollout._replace(reward=rollout.reward + coefficient * scale.normalize(bonus))

    def loss(params: PyTree, part: Rollout) -> Array:
        return masked.mean(model.surprise(params, part)[1], part.mask)

    def learn(learner: tuple[PyTree, PyTree], part: Rollout) -> tuple[tuple[PyTree, PyTree], None]:
        gradient = jax.grad(loss)(learner[0], part)
        return apply_gradients(_adam(learning_rate), gradient, learner[1], learner[0]), None

    length = rollout.done.shape[0]
    number = max(n for n in range(1, STEPS + 1) if length % n == 0)  # every number-th step of a rollout together
    parts = jax.tree.map(lambda x: x.reshape(length // number, number, *x.shape[1:]).swapaxes(0, 1), standard)
    (params, opt_state), _ = jax.lax.scan(learn, (curiosity.params, curiosity.opt_state), parts)
    return Curiosity(params=params, opt_state=opt_state, statistics=statistics, scale=scale), rollout


def _adam(learning_rate: Array | float) -> optax.GradientTransformation:
    return optax.flatten(optax.adam(learning_rate))


def _rnd(spec: EnvironmentSpec, config: NetworkConfig) -> Predictor:
    base = encoder(spec.observation_space, config)
    head = dense(FEATURES, 1.0, initializer=config.initializer)

    def init(key: Key) -> PyTree:
        keys = jax.random.split(key, 4)
        network = lambda body, out: {"body": base.init(body), "head": init_module(head, out, jnp.zeros(base.size))}
        return {"predictor": network(keys[0], keys[1]), "random": network(keys[2], keys[3])}

    def features(params: PyTree, observation: PyTree) -> Array:
        return apply(head, params["head"], base.step(params["body"], (), observation)[0])

    def surprise(params: PyTree, rollout: Rollout) -> tuple[Array, Array]:
        target = jax.lax.stop_gradient(features(params["random"], rollout.next_observation))
        error = jnp.mean((features(params["predictor"], rollout.next_observation) - target) ** 2, axis=-1)
        return error, error

    return Predictor(init=init, surprise=surprise)


def _icm(spec: EnvironmentSpec, config: NetworkConfig) -> Predictor:
    base = encoder(spec.observation_space, config)
    layer, head = lambda size: dense(size, 1.0, initializer=config.initializer), action_head(spec.action_space)
    features = Box(low=-jnp.inf, high=jnp.inf, shape=(base.size,))
    plain = NetworkConfig(
        network="mlp",
        hidden_sizes=config.hidden_sizes,
        activation=config.activation,
        initializer=config.initializer,
    )
    forward = encoder(Dict(spaces={"action": spec.action_space, "features": features}), plain)
    inverse = encoder(Dict(spaces={"after": features, "before": features}), plain)
    to_features, to_action = layer(base.size), layer(head.num_outputs)

    def init(key: Key) -> PyTree:
        keys = jax.random.split(key, 5)
        return {
            "features": base.init(keys[0]),
            "forward": forward.init(keys[1]),
            "to_features": init_module(to_features, keys[2], jnp.zeros(forward.size)),
            "inverse": inverse.init(keys[3]),
            "to_action": init_module(to_action, keys[4], jnp.zeros(inverse.size)),
        }

    def surprise(params: PyTree, rollout: Rollout) -> tuple[Array, Array]:
        before, after = (
            base.step(params["features"], (), x)[0] for x in (rollout.observation, rollout.next_observation)
        )
        sg = jax.lax.stop_gradient  # the features learn only to predict the action
        inputs = {"action": rollout.action, "features": sg(before)}
        predicted = apply(to_features, params["to_features"], forward.step(params["forward"], (), inputs)[0])
        error = 0.5 * jnp.mean((predicted - sg(after)) ** 2, axis=-1)
        pair = inverse.step(params["inverse"], (), {"after": after, "before": before})[0]
        outputs = apply(to_action, params["to_action"], pair)
        told = head.distribution(outputs, jnp.zeros(head.num_log_std)).log_prob(rollout.action)
        return error, FORWARD_SHARE * error - (1.0 - FORWARD_SHARE) * told

    return Predictor(init=init, surprise=surprise)
