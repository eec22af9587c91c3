"""Disco: a discovered update rule; Disco103 is the rule with the published weights.

A rule is a pytree with parameters, `initial_carry() -> state` and `rule(state, inputs) -> (targets, state)`, like those
in `purerl.functional.update_rules`.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.functional.distributional import expectation
from purerl.functional.moving_moments import MovingMoments
from purerl.functional.q_targets import at_action, retrace, unscale, with_successors
from purerl.networks import meta_network, weights_file
from purerl.networks.meta_network import Heads, MetaInputs, MetaSizes, MetaState
from purerl.networks.prediction_heads import Predictions
from purerl.types import Array, Key, number, pytree


class DiscoInputs(NamedTuple):
    """The inputs of the rule: rollouts of T steps, and predictions in S = T + K states, the steps and K successors.

    The successor of a step is the next one, unless one of the K follows it. After a termination it is the first state
    of the next episode, as it was when the rule was discovered.
    """

    action: Array  # i32[T, B]
    reward: Array  # f32[T, B]
    terminated: Array  # bool[T, B]
    done: Array  # bool[T, B], terminated or truncated
    mask: Array | None  # bool[T, B], which steps count; None: all
    follows: Array  # i32[K, B], the steps that the K successors follow; T: none
    behavior: Array  # f32[T, B, A], logits of the policy that acted
    agent: Predictions  # [S, B, ...]
    target: Predictions  # [S, B, ...], of the target parameters
    support: Array  # f32[n], the atoms of q, of rescaled values
    discount: Array | float
    trace_lambda: Array | float


class DiscoTargets(NamedTuple):
    """The targets of the agent's predictions; distributions as logits."""

    policy: Array  # f32[T, B, A]
    y: Array  # f32[T, B, m]
    z: Array  # f32[T, B, m], of the action taken
    value: Array  # f32[T, B], of the action taken, in units of the reward: Retrace's, not learned
    advantage: Array  # f32[T, B]
    standardized_advantage: Array  # f32[T, B]


class DiscoState(NamedTuple):
    """The rule's memory of an agent's life."""

    network: MetaState
    advantage: MovingMoments


@pytree
class DiscoRule:
    """Disco: targets of the policy, y and z come from a meta-network; targets of q from Retrace.

    Source: Oh et al. (2025), "Discovering state-of-the-art reinforcement learning algorithms", Nature,
    doi:10.1038/s41586-025-09761-x.
    """

    weights: Any = number(doc="by layer, as `meta_network.layer_shapes`")

    @staticmethod
    def create(key: Key, sizes: MetaSizes = MetaSizes()) -> "DiscoRule":
        """Sample the weights of an untrained rule."""
        return DiscoRule(weights=meta_network.random_weights(key, sizes))

    @staticmethod
    def load(path: str | Path) -> "DiscoRule":
        """Return the rule in a file such as disco_103.npz.

        Raises:
          InputError: if there is no such file, or it holds anything but the arrays of such a rule.
        """
        return DiscoRule(weights=weights_file.read(path))

    @property
    def predictions(self) -> int:
        """The number of categories of y and z."""
        return self.weights["y"].bias.shape[-1]

    def initial_carry(self) -> DiscoState:
        """Return the state at the start of an agent's life."""
        return DiscoState(network=MetaState.create(self.weights), advantage=MovingMoments.create())

    def __call__(self, state: DiscoState, inputs: DiscoInputs) -> tuple[DiscoTargets, DiscoState]:
        """Return (targets, state) for a batch of rollouts."""
        length = inputs.reward.shape[0]
        policy = jax.nn.softmax(inputs.agent.policy)
        target_q = unscale(expectation(inputs.target.q, inputs.support))  # f32[S, B, A]
        target_value = jnp.sum(policy * target_q, axis=-1)
        value = retrace_target(inputs, target_q, target_value)
        advantage = value - target_value[:length]
        moments = state.advantage.update(advantage, inputs.mask)
        action_advantage = (target_q - target_value[..., None])[:length]
        standardized = moments.standardize(advantage)
        seen = MetaInputs(
            action=inputs.action,
            reward=inputs.reward,
            terminated=inputs.terminated,
            done=inputs.done,
            mask=inputs.mask,
            follows=inputs.follows,
            behavior=inputs.behavior,
            agent=Heads(policy=inputs.agent.policy, y=inputs.agent.y, z=inputs.agent.z),
            target=Heads(policy=inputs.target.policy, y=inputs.target.y, z=inputs.target.z),
            value=jnp.sum(policy * unscale(expectation(inputs.agent.q, inputs.support)), axis=-1),
            advantage=advantage,
            standardized_advantage=standardized,
            q_value=target_q[:length],
            action_advantage=action_advantage,
            standardized_action_advantage=moments.standardize(action_advantage),
        )
        targets, network = meta_network.apply(self.weights, state.network, seen)
        return DiscoTargets(
            policy=targets.policy,
            y=targets.y,
            z=targets.z,
            value=value,
            advantage=advantage,
            standardized_advantage=standardized,
        ), DiscoState(network=network, advantage=moments)


def retrace_target(inputs: DiscoInputs, q: Array, value: Array) -> Array:
    """Return Retrace's target of the action taken at each step, f32[T, B], from q f32[S, B, A] and its mean f32[S, B].

    Source: Munos et al. (2016), arXiv:1606.02647.
    """
    length = inputs.reward.shape[0]
    taken = lambda x: at_action(x[:length], inputs.action)
    later = lambda x: jnp.concatenate([x[1:], jnp.zeros_like(x[:1])])
    log_ratio = taken(jax.nn.log_softmax(inputs.agent.policy)) - taken(jax.nn.log_softmax(inputs.behavior))
    trace = inputs.trace_lambda * jnp.minimum(jnp.exp(log_ratio), 1.0)
    target = retrace(
        reward=inputs.reward,
        next_value=with_successors(value[:length], value[length:], inputs.follows),
        next_taken=later(taken(q)),
        trace=later(trace),
        terminated=inputs.terminated,
        done=inputs.done,
        discount=inputs.discount,
    )
    return jax.lax.stop_gradient(target)
