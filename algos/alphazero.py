"""AlphaZero: search in the environment itself, and learn what the search found. `purerl train alphazero Catch`.

Before each action a tree of futures grows from the present state, led by a network that predicts a policy and a value;
the network then learns the search's better policy, and the returns that followed. A game of two sides in turns is
played by one network for both, each value as the side to move sees it: `--self-play 8`. Continuous actions are sampled
from the policy at each node, and the search chooses among them: `purerl train alphazero Pendulum-v1`.
Source: Silver et al. (2018), doi:10.1126/science.aar6404; the search by default: Danihelka et al. (2022), "Policy
improvement by planning with Gumbel", openreview.net/forum?id=bERaNdoegnO; sampled actions: Hubert et al. (2021),
arXiv:2104.06303.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algos.off_policy import new_statistics
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask
from purerl.functional.distributions import action_head
from purerl.functional.normalize import normalized
from purerl.networks.actor_critic import NetworkFactory, PolicyAgent, actor_critic
from purerl.networks.modules import Module
from purerl.optim.minibatch import check_minibatches, minibatch_epochs
from purerl.optim.optimizers import Optimizer, adam_by_plan, optimizer_of
from purerl.planning.search import (
    SearchConfig,
    act_by_search,
    edge,
    from_scale,
    learned,
    log_probs,
    network_for,
    new_agent,
    offer,
    offered,
    search_returns,
    to_scale,
)
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


class Node(NamedTuple):
    """B nodes of B trees."""

    draws: PyTree  # of an `Offer`
    situation: Situation  # [B, ...], without the observation
    over: Array  # bool[B], the episode has ended: nothing follows
    value: Array  # f32[B], where it has ended: 0, or the value where a time limit cut it off


class Batch(NamedTuple):
    """What the loss needs of each step of a rollout, [T, B, ...], or of a minibatch."""

    observation: PyTree
    draws: PyTree  # [..., n, ...], the actions that the root offered, where they are a sample
    weights: Array  # f32[..., n], the search's policy over them
    target: Array  # f32, the return, as the network predicts it
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

    with a the actions that the root offers, all of a discrete space or a sample of the policy, w the policy that the
    search found and G the lambda return over the values that it found, in which the sign changes with the side to move.
    A share epsilon of the actions is drawn uniformly, so that self-play sees more than one game; G ends before them.
    Each edge of a tree is stepped once: of what is random in the environment, a tree has one draw. The model sees the
    whole state, also what the observation hides.

    Args:
      spec: the environment's spaces.
      config: the settings.
      model: the environment's step; the loop gives it. Without it, or given an observation alone, the agent acts by its
        network's policy.
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation [N, ...]) -> features f32[N, n] below the heads, of flax linen, or of NNX; or
        (observation space, action head, config) -> the policy and the value function.

    Raises:
      InputError: if the settings contradict one another.
    """
    validate(config, "alphazero")
    check_minibatches(config, False, "alphazero")
    net, head = network_for(spec, config, network), action_head(spec.action_space)
    optimizer_at = optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)

    def init(key: Key) -> PolicyAgent:
        params = net.init(key)
        return new_agent(params, optimizer_at.init(params), new_statistics(spec, config))

    def act(agent: PolicyAgent, carry: PyTree, key: Key, situation: PyTree, explore: bool):
        if model is None or not isinstance(situation, Situation):
            policy, _ = predict(agent, situation)
            return head.to_action(policy.sample(seed=key) if explore else policy.mode()), carry, ()
        policy, value = predict(agent, situation.observation)
        legal = action_mask(situation.observation)
        over = jnp.zeros_like(value, bool)
        node = lambda draws: Node(draws=draws, situation=bare(situation), over=over, value=value)
        judge = agent._replace(opt_state=())
        action, extras = act_by_search(config, head, key, judge, policy, value, node, expand, legal, explore)
        return action, carry, extras

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        batch = with_targets(agent, rollout)
        params, opt_state, metrics = minibatch_epochs(
            loss,
            optimizer=optimizer_at(agent.num_updates),
            params=agent.params,
            opt_state=agent.opt_state,
            batch=batch,
            key=key,
            config=config,
        )
        found = to_scale(config, rollout.extras["value"])
        metrics["explained_variance"] = masked.explained_variance(found, batch.target, batch.mask)
        return learned(agent, params, opt_state, rollout.observation.observation, rollout.mask), metrics

    def expand(judge: PolicyAgent, key: Key, action: Array, node: Node) -> tuple[Any, Node]:
        """Step B environments by B actions, and let the network judge where they lead."""
        assert model is not None
        chosen = head.to_action(offered(node.draws, action))
        timestep = jax.vmap(model)(jax.random.split(key, action.shape[0]), node.situation, chosen)
        following = timestep.observation
        policy, value = predict(judge, following.observation)
        draws, logits = offer(policy, jax.random.fold_in(key, 1), config)
        value = jnp.where(node.over, node.value, jnp.where(timestep.terminated, 0.0, value))
        discount = signed_discount(node.situation.side, following.side)
        output = edge(
            reward=jnp.where(node.over, 0.0, timestep.reward),
            discount=jnp.where(node.over, 1.0, jnp.where(timestep.terminated, 0.0, discount)),
            logits=logits,
            value=value,
        )
        over = node.over | timestep.done
        return output, Node(draws=draws, situation=bare(following), over=over, value=value)

    def predict(judge: PolicyAgent, observation: PyTree) -> tuple[Any, Array]:
        """Return (policy, value f32[...] in units of the reward, as the side to move sees it)."""
        policy, value = net.apply(judge.params, normalized(judge.observation_statistics, observation))
        return policy, from_scale(config, value)

    def signed_discount(side: Array, next_side: Array) -> Array:
        return jnp.where(side == next_side, config.discount, -config.discount)

    def with_targets(agent: PolicyAgent, rollout: Rollout) -> Batch:
        now, following = rollout.observation, rollout.next_observation
        _, judged = predict(agent, following.observation)
        returns = search_returns(rollout, judged, signed_discount(now.side, following.side), config.td_lambda)
        return Batch(
            observation=normalized(agent.observation_statistics, now.observation),
            draws=rollout.extras["draws"],
            weights=rollout.extras["weights"],
            target=to_scale(config, returns),
            mask=rollout.mask,
        )

    def loss(params: PyTree, batch: Batch, carry: PyTree) -> tuple[Array, Metrics]:
        policy, value = net.apply(params, batch.observation)
        cross_entropy = -jnp.sum(batch.weights * log_probs(policy, batch.draws), axis=-1)
        value_error = 0.5 * (value - batch.target) ** 2
        entropy = policy.entropy()
        samples = {"policy_loss": cross_entropy, "value_loss": value_error, "entropy": entropy}
        metrics = masked.means(samples, batch.mask)
        total = metrics["policy_loss"] + config.value_coefficient * metrics["value_loss"]
        return total - config.entropy_coefficient * metrics["entropy"], metrics

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def bare(situation: Situation) -> Situation:
    """Return a situation without its observation: a tree holds one for each node."""
    return situation._replace(observation=())
