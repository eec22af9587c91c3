"""Munchausen DQN: its target by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.munchausen import MunchausenConfig, munchausen
from purerl.networks.q_networks import QNetwork
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Box, Dict, Discrete
from purerl.types import EnvironmentSpec, Rollout

ROOM = Box(low=0.0, high=1.0, shape=(1,))
ONLINE = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, 3.0]])  # Q[state, action]
TARGET = np.array([[1.2, 1.9, 0.1], [0.3, 2.0, 1.0]])
TRANSITION = {"action": 0, "reward": 0.25, "discount": 0.5}  # from state 0 to state 1


def learned(factory, config, legal=None):
    """Return the metrics of one gradient step on the transition, with tables instead of networks."""
    state = lambda i: jnp.full((1, 1), i, jnp.float32)
    see = lambda i: state(i) if legal is None else {"seen": state(i), "action_mask": jnp.array([legal])}
    space = ROOM if legal is None else Dict(spaces={"seen": ROOM, "action_mask": Box(low=0, high=1, shape=(3,))})

    def table(params, observation, noise=None):
        seen = observation if legal is None else observation["seen"]
        return params[seen[..., 0].astype(jnp.int32)]

    batch = Transitions(
        observation=see(0),
        action=jnp.array([TRANSITION["action"]]),
        reward=jnp.array([TRANSITION["reward"]]),
        discount=jnp.array([TRANSITION["discount"]]),
        next_observation=see(1),
        weight=jnp.ones(1),
        start=jnp.zeros(1, jnp.int32),
    )
    memory = Replay(lambda: (), lambda s, _: s, lambda s, _: batch, lambda s, *_: s)
    online = jnp.asarray(ONLINE, jnp.float32)
    settings = {"num_envs": 1, "batch_size": 1, "learning_starts": 1}
    spec = EnvironmentSpec(space, Discrete(n=3))
    algorithm = factory(spec, config(**settings), network=QNetwork(lambda key: online, table), replay=memory)
    agent = algorithm.init(jax.random.key(0))
    agent = agent._replace(target_params=jnp.asarray(TARGET, jnp.float32), num_updates=jnp.int32(100))
    never = jnp.zeros((1, 1), bool)
    rollout = Rollout(
        observation=jax.tree.map(lambda x: x[None], see(0)),
        action=jnp.zeros((1, 1), jnp.int32),
        reward=jnp.zeros((1, 1)),
        terminated=never,
        truncated=never,
        next_observation=None,
        carry=(),
        extras=(),
    )
    return algorithm.update(agent, jax.random.key(0), rollout)[1]


def by_hand(temperature, scale, clip, double=False, legal=(True, True, True)):
    """Return (target, bonus) as the paper's equation has them."""

    def log_softmax(q):
        weights = np.where(legal, np.exp((q - q.max()) / temperature), 0.0)
        return np.log(np.maximum(weights / weights.sum(), 1e-300))

    bonus = scale * np.clip(temperature * log_softmax(TARGET[0])[TRANSITION["action"]], clip, 0.0)
    log_pi = log_softmax((ONLINE if double else TARGET)[1])
    value = np.sum(np.where(legal, np.exp(log_pi) * (TARGET[1] - temperature * log_pi), 0.0))
    return TRANSITION["reward"] + bonus + TRANSITION["discount"] * value, bonus


@pytest.mark.parametrize(
    ("temperature", "scale", "clip", "double", "legal"),
    [
        (0.5, 0.9, -1.0, False, None),
        (0.5, 0.9, -0.2, False, None),  # the clip holds
        (1.0, 0.3, -1.0, True, None),
        (0.5, 0.9, -5.0, False, (True, True, False)),
        (0.5, 0.9, -5.0, True, (True, False, True)),
    ],
)
def test_the_target_by_hand(temperature, scale, clip, double, legal):
    def config(**more):
        return MunchausenConfig(
            temperature=temperature, munchausen_scale=scale, log_policy_clip=clip, double=double, **more
        )

    metrics = learned(munchausen, config, legal)
    target, bonus = by_hand(temperature, scale, clip, double, legal or (True, True, True))
    error = ONLINE[0, TRANSITION["action"]] - target
    assert float(metrics["log_policy_reward"]) == pytest.approx(bonus, rel=1e-5)
    assert float(metrics["td_error"]) == pytest.approx(abs(error), rel=1e-5)
    assert float(metrics["loss"]) == pytest.approx(0.5 * error**2, rel=1e-5)


def test_without_scale_and_temperature_it_is_dqn():
    plain = learned(dqn, DQNConfig)
    cold = learned(munchausen, lambda **more: MunchausenConfig(temperature=1e-4, munchausen_scale=0.0, **more))
    assert float(cold["loss"]) == pytest.approx(float(plain["loss"]), rel=1e-5)
