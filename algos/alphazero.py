"""AlphaZero: MCTS in the environment itself, and a network that learns from it. `purerl train alphazero Catch`.

Before each action a tree grows from the current state, guided by a network that predicts a policy and a value. The
network then learns the improved policy of the tree and the returns. With `--self-play 8` one network plays both sides
of a turn-based game; each value is for the side to move. Continuous actions are sampled from the policy at each
node, and MCTS chooses among the samples: `purerl train alphazero Pendulum-v1`. MuZero builds on this file.
Source: Silver et al. (2018), doi:10.1126/science.aar6404; the default MCTS: Danihelka et al. (2022), "Policy
improvement by planning with Gumbel", openreview.net/forum?id=bERaNdoegnO; sampled actions: Hubert et al. (2021),
arXiv:2104.06303.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import mctx

from purerl.algos.off_policy import new_statistics
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.distributions import action_head
from purerl.functional.normalize import normalized
from purerl.networks.actor_critic import NetworkFactory, PolicyAgent, actor_critic
from purerl.networks.modules import Module
from purerl.optim.minibatch import MinibatchLoss, check_minibatches, minibatch_epochs
from purerl.optim.optimizers import Optimizer, ScheduledOptimizer, adam_by_plan, optimizer_of
from purerl.planning.acting import act_by_search
from purerl.planning.candidates import candidate_actions, log_probs, take_actions
from purerl.planning.config import SearchConfig
from purerl.planning.network import network_for
from purerl.planning.search import recurrent_output
from purerl.planning.value_targets import from_scale, search_returns, to_scale
from purerl.types import (
    Algorithm,
    Array,
    EnvironmentSpec,
    Key,
    Metrics,
    PyTree,
    Rollout,
    pytree,
)
from purerl.wrappers.situations import Model, Situation


@pytree
class AlphaZeroConfig(SearchConfig):
    """Settings of AlphaZero."""

    plans: ClassVar[int] = 2


class Embedding(NamedTuple):
    """The content of a tree for B nodes."""

    candidates: PyTree  # [B, K, ...], the actions of `Candidates`
    situation: Situation  # [B, ...], without the observation
    terminal: Array  # bool[B], the episode has ended; every action leads back here
    value: Array  # f32[B], used if terminal: 0, or the network's value at a truncation


class Batch(NamedTuple):
    """The training data of each step of a rollout, [T, B, ...], or of a minibatch."""

    observation: PyTree
    candidates: PyTree  # [..., K, ...], the candidate actions at the root; () if they are discrete
    action_weights: Array  # f32[..., K], the policy of the MCTS
    value_target: Array  # f32, the return, on the network's scale
    mask: Array | None  # bool, which samples count; None: all


def alphazero(
    spec: EnvironmentSpec,
    config: AlphaZeroConfig,
    *,
    model: Model | None = None,
    optimizer: Optimizer = adam_by_plan,
    network: NetworkFactory | Module = actor_critic,
) -> Algorithm:
    r"""Return AlphaZero.

        loss = -sum_a w(a) log pi(a|s) + c_v (V(s) - G)^2 / 2 - c_e H(pi)

    a: the candidate actions at the root, all of a discrete space or samples of the policy; w: the policy of the MCTS;
    G: the lambda return over its root values, whose sign changes with the side to move. A fraction epsilon of the
    actions is sampled uniformly, so that self-play sees more than one game; G ends before them.
    Each transition of a tree is stepped once, so a tree has one sample of a stochastic environment. The model sees the
    whole state, including what the observation hides.

    Args:
      spec: the environment's spaces.
      config: the settings.
      model: the environment's step; the loop passes it. Without it, or if `act` gets an observation only, the agent
        acts by the policy of its network.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], to which heads are
        added, or a function (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if the settings contradict one another.
    """
    validate(config, "alphazero")
    check_minibatches(config, False, "alphazero")
    net, head = network_for(spec, config, network), action_head(spec.action_space)
    optimizer_at = optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)

    def init(key: Key) -> PolicyAgent:
        return new_agent(net.init(key), optimizer_at, spec, config)

    def act(agent: PolicyAgent, carry: PyTree, key: Key, situation: PyTree, explore: bool):
        if model is None or not isinstance(situation, Situation):
            policy, _ = predict(agent, situation)
            return head.to_action(policy.sample(seed=key) if explore else policy.mode()), carry, ()
        policy, value = predict(agent, situation.observation)

        def embed(candidates: PyTree) -> Embedding:
            terminal = jnp.zeros_like(value, bool)
            return Embedding(
                candidates=candidates, situation=without_observation(situation), terminal=terminal, value=value
            )

        action, extras = act_by_search(
            config,
            key,
            space=spec.action_space,
            head=head,
            policy=policy,
            value=value,
            embed=embed,
            params=agent._replace(opt_state=()),
            recurrent_fn=recurrent_fn,
            observation=situation.observation,
            explore=explore,
        )
        return action, carry, extras

    def predict(agent: PolicyAgent, observation: PyTree) -> tuple[Any, Array]:
        """Return (the policy, the value f32[...] of the side to move, in units of the reward)."""
        policy, value = net.apply(agent.params, normalized(agent.observation_statistics, observation))
        return policy, from_scale(config, value)

    def recurrent_fn(
        agent: PolicyAgent, key: Key, action: Array, embedding: Embedding
    ) -> tuple[mctx.RecurrentFnOutput, Embedding]:
        """Step B environments by B actions and evaluate the next situations."""
        assert model is not None
        chosen = head.to_action(take_actions(embedding.candidates, action))
        timestep = jax.vmap(model)(jax.random.split(key, action.shape[0]), embedding.situation, chosen)
        next_situation, terminal = timestep.observation, embedding.terminal
        policy, value = predict(agent, next_situation.observation)
        candidates, prior_logits = candidate_actions(policy, jax.random.fold_in(key, 1), config)
        value = jnp.where(terminal, embedding.value, jnp.where(timestep.terminated, 0.0, value))
        discount = signed_discount(embedding.situation.side, next_situation.side)
        output = recurrent_output(
            reward=jnp.where(terminal, 0.0, timestep.reward),
            discount=jnp.where(terminal, 1.0, jnp.where(timestep.terminated, 0.0, discount)),
            prior_logits=prior_logits,
            value=value,
        )
        next_embedding = Embedding(
            candidates=candidates,
            situation=without_observation(next_situation),
            terminal=terminal | timestep.done,
            value=value,
        )
        return output, next_embedding

    def signed_discount(side: Array, next_side: Array) -> Array:
        return jnp.where(side == next_side, config.discount, -config.discount)

    def targets(agent: PolicyAgent, rollout: Rollout) -> Batch:
        now, then = rollout.observation, rollout.next_observation
        _, next_value = predict(agent, then.observation)
        returns = search_returns(rollout, next_value, signed_discount(now.side, then.side), config.td_lambda)
        return Batch(
            observation=normalized(agent.observation_statistics, now.observation),
            candidates=rollout.extras["candidates"],
            action_weights=rollout.extras["action_weights"],
            value_target=to_scale(config, returns),
            mask=rollout.mask,
        )

    def loss(params: PyTree, batch: Batch, carry: PyTree) -> tuple[Array, Metrics]:
        policy, value = net.apply(params, batch.observation)
        cross_entropy = -jnp.sum(batch.action_weights * log_probs(policy, batch.candidates), axis=-1)
        value_error = 0.5 * (value - batch.value_target) ** 2
        entropy = policy.entropy()
        samples = {"policy_loss": cross_entropy, "value_loss": value_error, "entropy": entropy}
        metrics = masked.means(samples, batch.mask)
        total = metrics["policy_loss"] + config.value_coefficient * metrics["value_loss"]
        return total - config.entropy_coefficient * metrics["entropy"], metrics

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        batch = targets(agent, rollout)
        return learn_from_search(
            agent,
            key,
            rollout._replace(observation=rollout.observation.observation),
            batch=batch,
            value_target=batch.value_target,
            loss=loss,
            optimizer_at=optimizer_at,
            config=config,
        )

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def without_observation(situation: Situation) -> Situation:
    """Return a situation without its observation, which a tree does not need to store for each node."""
    return situation._replace(observation=())


def new_agent(
    params: PyTree, optimizer_at: ScheduledOptimizer, spec: EnvironmentSpec, config: SearchConfig
) -> PolicyAgent:
    """Return an agent of AlphaZero or MuZero before its first rollout.

    Args:
      params: the parameters of its network.
      optimizer_at: the optimizer.
      spec: the environment's spaces.
      config: the settings, such as whether observations are normalized.
    """
    return PolicyAgent(
        params=params,
        opt_state=optimizer_at.init(params),
        num_updates=jnp.int32(0),
        observation_statistics=new_statistics(spec, config),
        return_scale=None,
        value_statistics=None,
    )


def learn_from_search(
    agent: PolicyAgent,
    key: Key,
    rollout: Rollout,
    *,
    batch: PyTree,
    value_target: Array,
    loss: MinibatchLoss,
    optimizer_at: ScheduledOptimizer,
    config: SearchConfig,
) -> tuple[PolicyAgent, Metrics]:
    """Take the gradient steps of an update: `update` of AlphaZero and MuZero.

    Args:
      agent: before the update.
      key: for the orders of the minibatches.
      rollout: [T, B], with the observations that update the agent's statistics.
      batch: [T, B, ...], a record with the field `mask`.
      value_target: f32[T, B], the targets of the root's values, on the network's scale.
      loss: the mean over a minibatch.
      optimizer_at: the optimizer of each update.
      config: the settings.

    Returns:
      (the agent after the update, metrics). `explained_variance` compares the root values with their targets.
    """
    params, opt_state, metrics = minibatch_epochs(
        loss,
        optimizer=optimizer_at(agent.num_updates),
        params=agent.params,
        opt_state=agent.opt_state,
        batch=batch,
        key=key,
        config=config,
    )
    root_value = to_scale(config, rollout.extras["root_value"])
    metrics["explained_variance"] = masked.explained_variance(root_value, value_target, rollout.mask)
    statistics = agent.observation_statistics
    if statistics is not None:
        statistics = statistics.update(rollout.observation, rollout.mask)
    return agent.stepped(params, opt_state)._replace(observation_statistics=statistics), metrics
