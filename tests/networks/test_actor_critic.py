"""Actor-critic networks: with and without a body in common, one observation at a time and along a rollout."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.functional.distributions import action_head
from purerl.networks.actor_critic import ActorCriticConfig, actor_critic
from purerl.networks.encoder import recurrent_encoder
from purerl.networks.torsos import RNNS
from purerl.spaces import Box, Dict, Discrete

SPACE, HEAD = Box(low=-1.0, high=1.0, shape=(3,)), action_head(Discrete(n=4))
OBSERVATION = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2, 3)), jnp.float32)


@pytest.mark.long_for("False", "True")
@pytest.mark.parametrize("share_body", [False, True])
def test_a_rollout_is_its_steps(share_body):
    net = actor_critic(SPACE, HEAD, ActorCriticConfig(hidden_sizes=(8,), share_body=share_body))
    params = net.init(jax.random.key(0))
    assert ("critic_body" in params) is not share_body
    along, values, carry = net.unroll(params, (), OBSERVATION, jnp.zeros((5, 2), jnp.bool_))
    assert carry == () and along.logits.shape == (5, 2, 4) and values.shape == (5, 2)
    for t in range(5):
        assert np.allclose(net.policy(params, (), OBSERVATION[t])[0].logits, along.logits[t], atol=1e-6)
        assert np.allclose(net.value(params, (), OBSERVATION[t]), values[t], atol=1e-6)


@pytest.mark.long_for("False", "True")
@pytest.mark.parametrize("share_body", [False, True])
def test_what_the_value_teaches_the_policy(share_body):
    """The value's gradient reaches what the policy sees by exactly where they share it."""
    net = actor_critic(SPACE, HEAD, ActorCriticConfig(hidden_sizes=(8,), share_body=share_body))
    gradient = jax.grad(lambda params: jnp.sum(net.value(params, (), OBSERVATION)))(net.init(jax.random.key(0)))
    assert bool(jnp.any(jax.flatten_util.ravel_pytree(gradient["body"])[0] != 0)) is share_body


@pytest.mark.parametrize("rnn", ["none", "gru"])
def test_layers_behind_the_body_by_hand(rnn):
    config = ActorCriticConfig(
        hidden_sizes=(8,), head_sizes=(7, 5), activation="relu", rnn=rnn, rnn_size=6, share_body=True
    )
    net, body = actor_critic(SPACE, HEAD, config), recurrent_encoder(SPACE, config, rnn, 6)
    params, done = net.init(jax.random.key(0)), jnp.zeros((5, 2), jnp.bool_)
    policies, values, _ = net.unroll(params, net.initial_carry(2), OBSERVATION, done)
    features, _ = body.unroll(params["body"], body.initial_carry(2), OBSERVATION, done)

    def behind(head):
        x = np.asarray(features)
        for layer in head["layers_0"].values():
            x = np.maximum(x @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"]), 0.0)
        return x @ np.asarray(head["layers_1"]["kernel"]) + np.asarray(head["layers_1"]["bias"])

    kernel = np.asarray(params["actor"]["layers_0"]["Dense_1"]["kernel"])  # shape 7 x 5: orthogonal columns with gain 2
    np.testing.assert_allclose(kernel.T @ kernel, 4 * np.eye(5), atol=1e-5)
    assert [x.shape for x in jax.tree.leaves(params["critic"])] == [(7,), (body.size, 7), (5,), (7, 5), (1,), (5, 1)]
    np.testing.assert_allclose(values, behind(params["critic"])[..., 0], atol=1e-5)
    np.testing.assert_allclose(policies.logits, behind(params["actor"]), atol=1e-5)


def test_a_critic_that_sees_more_has_a_body_of_its_own():
    space = Dict(spaces={"observation": SPACE, "global_state": SPACE})
    with pytest.raises(InputError, match="share_body and centralized_critic cannot be combined"):
        actor_critic(space, HEAD, ActorCriticConfig(share_body=True))


@pytest.mark.long
@pytest.mark.parametrize("rnn", RNNS)
def test_a_recurrent_critic_remembers_the_global_state(rnn):
    """A rollout is its steps for actor and critic, and the value at a successor is that of one step more."""
    space = Dict(spaces={"observation": SPACE, "global_state": SPACE})
    net = actor_critic(space, HEAD, ActorCriticConfig(hidden_sizes=(8,), rnn=rnn, rnn_size=6))
    seen = {"observation": OBSERVATION, "global_state": OBSERVATION[::-1]}
    after = jax.tree.map(lambda x: x[1:], seen) | {"global_state": 3.0 * OBSERVATION[:4]}  # as of endings, not seen
    done = jnp.zeros((5, 2), jnp.bool_).at[2, 0].set(True)
    params = net.init(jax.random.key(0))
    begin = carry = net.initial_carry(2)
    policies, values, carries = net.unroll(params, carry, seen, done)
    successors = net.value(params, jax.tree.map(lambda x: x[:4], carries), after)
    for t in range(5):
        now = jax.tree.map(lambda x, t=t: x[t], seen)
        assert np.allclose(net.value(params, carry, now), values[t], atol=1e-6)
        policy, carry = net.policy(params, carry, now)
        assert np.allclose(policy.logits, policies.logits[t], atol=1e-6)
        jax.tree.map(lambda x, xs, t=t: np.testing.assert_allclose(x, xs[t], atol=1e-6), carry, carries)
        if t < 4:
            next_value = net.value(params, carry, jax.tree.map(lambda x, t=t: x[t], after))
            assert np.allclose(next_value, successors[t], atol=1e-6)
        carry = jax.tree.map(lambda new, old, t=t: jnp.where(done[t][:, None], new, old), begin, carry)
    other = seen | {"global_state": seen["global_state"].at[0].add(1.0)}
    same, changed, _ = net.unroll(params, begin, other, done)
    moved = np.abs(changed - values).max(1)
    assert np.array_equal(same.logits, policies.logits)  # the actor does not see it
    assert np.array_equal(np.abs(changed - values)[3:, 0], [0.0, 0.0])  # forgotten at the ending
    assert moved[1:].min() > 1e-4, moved  # the critic remembers the first state
