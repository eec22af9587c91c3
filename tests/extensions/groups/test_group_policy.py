"""The agents of groups as one batch, by hand: who is where, and which steps count."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.extensions.groups.group_policy import GroupPolicy
from purerl.spaces import Box
from purerl.types import Algorithm, Rollout

T, B, SIZES = 3, 4, (2, 1)  # steps, environments, agents of a and of b


def policy(joint=False, central=False):
    nothing = Algorithm(init=None, initial_carry=None, act=None, update=None)  # type: ignore[arg-type]
    return GroupPolicy(
        algorithm=nothing,
        observation_space=Box(low=0, high=1, shape=()),
        groups=("a", "b"),
        sizes=SIZES,
        central=central,
        joint=joint,
        in_turns=False,
        frozen=False,
        agent=None,
    )


def by_group(*leading, dtype=np.float32):
    """Return {group: [.., n]}: the number 100 t + 10 b + i for step t, environment b and agent i."""
    steps = np.zeros((1, 1)) if len(leading) == 1 else 100 * np.arange(leading[0])[:, None]
    agents = (steps + 10 * np.arange(leading[-1]))[..., None] + np.arange(sum(SIZES))
    agents = (agents if len(leading) == 2 else agents[0]).astype(dtype)
    return {"a": jnp.asarray(agents[..., :2]), "b": jnp.asarray(agents[..., 2:])}


def test_agents_are_environments_of_their_own_and_return_to_their_groups():
    seen = policy().concatenate(by_group(B), 1)
    flat = policy().flatten(seen, 0)
    np.testing.assert_array_equal(flat, [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32])
    assert policy().batch(B) == 12 and policy(joint=True).batch(B) == B
    back = policy().split(policy().unflatten(flat), 1)
    for group, array in by_group(B).items():
        np.testing.assert_array_equal(back[group], array)


def test_each_agent_sees_the_global_state_once_beside_its_own():
    observation = by_group(B) | {"global_state": jnp.arange(B), "active": by_group(B)}
    seen = policy(central=True).observation(observation, 1)
    np.testing.assert_array_equal(seen["global_state"], np.repeat(np.arange(B)[:, None], 3, axis=1))
    np.testing.assert_array_equal(seen["observation"][:, 2], 10 * np.arange(B) + 2)
    team = policy(joint=True, central=True).observation(observation, 1)
    assert sorted(team) == ["active", "agents", "global_state"]
    np.testing.assert_array_equal(team["global_state"], np.arange(B))
    assert team["agents"].shape == (B, 3)


@pytest.mark.parametrize("joint", [False, True])
def test_who_leaves_terminates_and_does_not_count_afterwards(joint):
    """Agent 1 of environment 0 leaves in step 0 and all of environment 1 in step 1, where the time is up, too."""
    before, after = np.ones((T, B, 3), bool), np.ones((T, B, 3), bool)
    after[0:, 0, 1] = before[1:, 0, 1] = False
    after[1:, 1] = before[2:, 1] = False
    groups = lambda x: {"a": jnp.asarray(x[..., :2]), "b": jnp.asarray(x[..., 2:])}
    truncated = np.zeros((T, B), bool)
    truncated[1, 1] = truncated[2, 2] = True
    zeros = np.zeros((T, B, 3), np.float32)
    rollout = Rollout(
        observation=groups(zeros) | {"active": groups(before)},
        action=groups(zeros),
        reward=by_group(T, B),
        terminated=jnp.zeros((T, B), bool),
        truncated=jnp.asarray(truncated),
        next_observation=groups(zeros) | {"active": groups(after)},
        extras={"p": jnp.asarray(zeros)},
        carry={"p": jnp.asarray(zeros[0])},
        mask=None,
    )
    found = policy(joint=joint).rollout("p", rollout)
    reward = np.concatenate(list(by_group(T, B).values()), axis=2)
    if joint:
        mean = np.where(before.any(2), (reward * before).sum(2) / np.maximum(before.sum(2), 1), 0.0)
        np.testing.assert_allclose(np.where(found.mask, found.reward, 0.0), mean, rtol=1e-6)
        np.testing.assert_array_equal(found.mask, before.any(2))
        left = before.any(2) & ~after.any(2)
        assert left.sum() == 1 and left[1, 1]
    else:
        np.testing.assert_array_equal(found.reward, reward.reshape(T, -1))
        np.testing.assert_array_equal(found.mask, before.reshape(T, -1))
        left = (before & ~after).reshape(T, -1)
        truncated = np.repeat(truncated, 3, axis=1)
        assert left.sum() == 4
    np.testing.assert_array_equal(found.terminated, left)
    np.testing.assert_array_equal(found.truncated, truncated & ~left)
