"""A policy and a value function that are tables, and a rollout of them, every number of which is known."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.functional.distributions import Categorical
from purerl.networks.actor_critic import ActorCritic
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec, Rollout

S, A, T, B = 5, 3, 6, 2


SPEC = EnvironmentSpec(Box(low=0.0, high=float(S), shape=(1,)), Discrete(n=A))


RNG = np.random.default_rng(0)


PARAMS = {"logits": RNG.normal(size=(S, A)).astype(np.float32), "value": RNG.normal(size=S).astype(np.float32)}


def table(space, head, config):
    """A policy and a value function that look their numbers up by the observation."""
    at = lambda observation: observation[..., 0].astype(jnp.int32)
    policy = lambda params, observation: Categorical(params["logits"][at(observation)])
    return ActorCritic(
        init=lambda key: jax.tree.map(jnp.asarray, PARAMS),
        initial_carry=lambda num_envs: (),
        policy=lambda params, carry, observation: (policy(params, observation), ()),
        value=lambda params, carry, observation: params["value"][at(observation)],
        unroll=lambda params, carry, o, done: (policy(params, o), params["value"][at(o)], ()),
    )


def make_rollout(seed=1):
    rng = np.random.default_rng(seed)
    state, successor = rng.integers(0, S, (2, T, B))
    action = rng.integers(0, A, (T, B)).astype(np.int32)
    terminated = np.zeros((T, B), bool)
    truncated = np.zeros((T, B), bool)
    terminated[1, 0] = terminated[3, 1] = truncated[2, 0] = truncated[4, 1] = True
    log_probs = PARAMS["logits"] - np.log(np.exp(PARAMS["logits"]).sum(-1, keepdims=True))
    # log-probabilities of a policy that is not quite the present one
    log_prob = (log_probs[state, action] + rng.normal(0, 0.15, (T, B))).astype(np.float32)
    observe = lambda s: s[..., None].astype(np.float32)
    reward = rng.normal(size=(T, B)).astype(np.float32)
    extras = {"raw_action": action, "log_prob": log_prob}
    rollout = Rollout(observe(state), action, reward, terminated, truncated, observe(successor), extras, ())
    return jax.tree.map(jnp.asarray, rollout)


def float64(params):
    return {name: np.asarray(value, np.float64) for name, value in params.items()}
