"""D4PG: the critic's loss by hand, with the projection atom by atom."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.d4pg import D4PGConfig, d4pg
from purerl.errors import InputError
from purerl.spaces import Box, Discrete
from purerl.types import EnvironmentSpec
from tests.helpers import replays

OBSERVATION = Box(low=-1.0, high=1.0, shape=(2,))
SPEC = EnvironmentSpec(OBSERVATION, Box(low=-2.0, high=6.0, shape=(1,)))
SIZES = {"hidden_sizes": (8,), "batch_size": 16, "replay_capacity": 256, "learning_starts": 1, "n_step": 1}
SIZES |= {"num_envs": 4, "rollout_length": 8, "num_atoms": 5, "v_min": -2.0, "v_max": 2.0}


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def projected(values, probability, atoms):
    """Bellemare et al.'s algorithm 1, one atom at a time."""
    target = np.zeros((len(values), len(atoms)))
    for row in range(len(values)):
        for value, share in zip(values[row], probability[row], strict=True):
            place = (np.clip(value, atoms[0], atoms[-1]) - atoms[0]) / (atoms[1] - atoms[0])
            low, high = int(np.floor(place)), int(np.ceil(place))
            target[row, low] += share * (high - place if high > low else 1.0)
            target[row, high] += share * (place - low) if high > low else 0.0
    return target


@pytest.mark.long
def test_the_critics_loss_by_hand(key):
    """The target network's policy acts at the successors; its zero weights make every distribution uniform there."""
    batch = replays.batch(key, 16, discount=0.9)
    config = D4PGConfig(**SIZES, reward_scale=0.5)
    algorithm = d4pg(SPEC, config, replay=replays.fixed(batch))
    agent = algorithm.init(key)
    uniform = agent.target_params | {"critics": _zeros(agent.target_params["critics"])}
    _, metrics = algorithm.update(agent._replace(target_params=uniform), key, replays.rollout())
    atoms = np.linspace(-2, 2, 5)
    values = 0.5 * np.asarray(batch.reward)[:, None] + 0.9 * atoms
    target = projected(values, np.full((16, 5), 0.2), atoms)
    outputs = np.asarray(replays.critic_outputs(SPEC, config, 1, 5)(agent.params["critics"], batch), np.float64)[0]
    expected = -np.mean(np.sum(target * np.log(softmax(outputs)), axis=1))
    assert float(metrics["critic_loss"]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.long
def test_the_policy_climbs_the_mean(key):
    batch = replays.batch(key, 16, discount=0.9)
    algorithm = d4pg(SPEC, D4PGConfig(**SIZES), replay=replays.fixed(batch))
    agent = algorithm.init(key)
    _, metrics = algorithm.update(agent, key, replays.rollout())
    assert -2.0 <= -float(metrics["actor_loss"]) <= 2.0  # inside the atoms


def test_refusals():
    with pytest.raises(InputError, match=r"d4pg: v_min -2\.0 must be below v_max -3\.0"):
        d4pg(SPEC, D4PGConfig(**{**SIZES, "v_max": -3.0}))
    with pytest.raises(InputError, match="d4pg: needs continuous actions"):
        d4pg(EnvironmentSpec(OBSERVATION, Discrete(n=2)), D4PGConfig(**SIZES))


def _zeros(tree):
    return tuple({name: _deep(part) for name, part in one.items()} for one in tree)


def _deep(tree):
    return {name: _deep(part) for name, part in tree.items()} if isinstance(tree, dict) else jnp.zeros_like(tree)
