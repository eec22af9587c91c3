"""MuZero: search in a model that is learned with the policy. `purerl train muzero CartPole-v1`.

A network represents what is seen as a latent, predicts the reward of an action and the latent that follows, and from a
latent the policy and the value. Before each action a tree grows in latents alone; then the model is unrolled along what
happened and learns, at each step of it, the search's policy, the return and the reward.
Source: Schrittwieser et al. (2020), arXiv:1911.08265; the search by default: Danihelka et al. (2022), "Policy
improvement by planning with Gumbel", openreview.net/forum?id=bERaNdoegnO; sampled actions where they are not discrete:
Hubert et al. (2021), arXiv:2104.06303. Learned on-policy: from each rollout, without
replay; values and rewards are single numbers.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algos.off_policy import new_statistics
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask
from purerl.functional.distributions import action_head, masked_policy
from purerl.functional.normalize import normalized
from purerl.networks.actor_critic import PolicyAgent
from purerl.networks.latent_model import latent_model
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
    new_agent,
    offer,
    offered,
    search_returns,
    standardized,
    to_scale,
)
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class MuZeroConfig(SearchConfig):
    """Settings of MuZero."""

    unroll_steps: int = static(default=5, doc="steps that the model is unrolled along a rollout", at_least=1)
    td_lambda: float = number(default=0.95, doc="value targets: 1: whole returns; 0: one step", at_least=0, at_most=1)
    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    reward_coefficient: float = number(default=1.0, doc="weight of the reward loss", at_least=0)


class Node(NamedTuple):
    """B nodes of B trees."""

    draws: PyTree  # of an `Offer`
    latent: Array  # f32[B, m]


class Batch(NamedTuple):
    """What the loss needs of each step of a rollout and the K after it, [T, B, ...], or of a minibatch."""

    observation: PyTree
    action: PyTree  # [..., K, ...]
    reward: Array  # f32[..., K], as the network predicts it
    draws: PyTree  # [..., K + 1, n, ...], the actions that the roots offered, where they are a sample
    weights: Array  # f32[..., K + 1, n], the search's policy over them
    target: Array  # f32[..., K + 1], the return, as the network predicts it
    known: "Futures"  # which of these are
    mask: Array | None  # bool, which samples count; None: all


def muzero(
    spec: EnvironmentSpec,
    config: MuZeroConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: Module | None = None,
) -> Algorithm:
    r"""Return MuZero.

        loss = sum_k c_k [-sum_a w_k(a) log pi_k(a) - c_e H(pi_k) + c_v (v_k - G_k)^2 / 2 + c_r (r_k - R_k)^2 / 2]

    over k = 0 .. K steps of the model from a step of the rollout, with a the actions that the root offered, all of a
    discrete space or a sample of the policy, w the searches' policies, G the lambda returns
    over their values, R the rewards on the way to k, c_0 = 1 and c_k = 1 / K. The gradient of each step of the model is
    halved. Legal actions are known at the root alone. Beyond the end of a task the return and the reward are 0; where a
    time limit or the rollout ends, the value of the true successor is the last that is learned.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation [N, ...]) -> features f32[N, n] in place of the representation's, of flax linen, or
        of NNX.

    Raises:
      InputError: if the settings contradict one another.
    """
    validate(config, "muzero")
    head = action_head(spec.action_space)
    net = latent_model(spec.observation_space, spec.action_space, config, network)
    check_minibatches(config, False, "muzero")
    optimizer_at = optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)

    def init(key: Key) -> PolicyAgent:
        params = net.init(key)
        return new_agent(params, optimizer_at.init(params), new_statistics(spec, config))

    def act(agent: PolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        legal = action_mask(observation)
        latent = net.represent(agent.params, normalized(agent.observation_statistics, observation))
        policy, value = net.predict(agent.params, latent)
        policy = policy if legal is None else masked_policy(policy, legal)
        node = lambda draws: Node(draws=draws, latent=latent)
        action, extras = act_by_search(
            config, head, key, agent.params, policy, from_scale(config, value), node, expand, legal, explore
        )
        return action, carry, extras

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        batch = with_futures(agent, rollout)
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
        metrics["explained_variance"] = masked.explained_variance(found, batch.target[..., 0], batch.mask)
        return learned(agent, params, opt_state, rollout.observation, rollout.mask), metrics

    def expand(params: PyTree, key: Key, action: Array, node: Node) -> tuple[Any, Node]:
        """Step B latents by B actions in the model."""
        chosen = head.to_action(offered(node.draws, action))
        latent, reward = net.advance(params, node.latent, chosen)
        policy, value = net.predict(params, latent)
        draws, logits = offer(policy, key, config)
        discount = jnp.full_like(reward, config.discount)
        output = edge(from_scale(config, reward), discount, logits, from_scale(config, value))
        return output, Node(draws=draws, latent=latent)

    def with_futures(agent: PolicyAgent, rollout: Rollout) -> Batch:
        observation, following = standardized(agent, rollout)
        _, judged = net.predict(agent.params, net.represent(agent.params, following))
        judged = from_scale(config, judged)
        returns = search_returns(rollout, judged, config.discount, config.td_lambda)
        steps, known = config.unroll_steps, futures(rollout, config.unroll_steps)
        later = lambda x: ahead(x, steps)
        successor = jnp.pad(later(judged)[..., :-1], ((0, 0), (0, 0), (1, 0)))
        target = jnp.where(known.going, later(returns), jnp.where(known.cut, successor, 0.0))
        # Beyond an ending nobody acts: the rollout's other actions stand there, which are worth nothing.
        around = lambda x: jnp.stack([jnp.roll(x, -k, axis=0) for k in range(steps)], axis=2)
        return Batch(
            observation=observation,
            action=jax.tree.map(around, rollout.action),
            reward=to_scale(config, jnp.where(known.going, later(rollout.reward), 0.0))[..., :-1],
            draws=jax.tree.map(later, rollout.extras["draws"]),
            weights=later(rollout.extras["weights"]),
            target=to_scale(config, target),
            known=known,
            mask=rollout.mask,
        )

    def loss(params: PyTree, batch: Batch, carry: PyTree) -> tuple[Array, Metrics]:
        latent, known = net.represent(params, batch.observation), batch.known
        parts = []
        for k in range(config.unroll_steps + 1):
            weight = 1.0 if k == 0 else 1.0 / config.unroll_steps
            reward_error = jnp.zeros_like(batch.target[..., 0])
            if k > 0:
                latent, reward = net.advance(params, latent, jax.tree.map(lambda x, k=k: x[:, k - 1], batch.action))
                latent = 0.5 * latent + 0.5 * jax.lax.stop_gradient(latent)
                reward_error = 0.5 * (reward - batch.reward[..., k - 1]) ** 2
            policy, value = net.predict(params, latent)
            draws = jax.tree.map(lambda x, k=k: x[:, k], batch.draws)
            cross_entropy = -jnp.sum(batch.weights[:, k] * log_probs(policy, draws), axis=-1)
            value_error = 0.5 * (value - batch.target[..., k]) ** 2
            part = {
                "policy_loss": jnp.where(known.going[..., k], cross_entropy, 0.0),
                "entropy": jnp.where(known.going[..., k], policy.entropy(), 0.0),
                "value_loss": jnp.where(known.going[..., k] | known.over[..., k] | known.cut[..., k], value_error, 0.0),
                "reward_loss": jnp.where(known.going[..., k - 1] | known.over[..., k - 1], reward_error, 0.0),
            }
            parts.append({name: weight * x for name, x in part.items()})
        samples = {name: jnp.sum(jnp.stack([part[name] for part in parts]), axis=0) for name in parts[0]}
        metrics = masked.means(samples, batch.mask)
        total = metrics["policy_loss"] + config.value_coefficient * metrics["value_loss"]
        total = total - config.entropy_coefficient * metrics["entropy"]
        return total + config.reward_coefficient * metrics["reward_loss"], metrics

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


def ahead(x: Array, steps: int) -> Array:
    """Return x[t + k], k = 0 .. steps, for x [T, B, ...]: [T, B, steps + 1, ...]; zeros beyond the end."""
    padded = jnp.concatenate([x, jnp.zeros((steps, *x.shape[1:]), x.dtype)])
    return jnp.stack([padded[k : k + x.shape[0]] for k in range(steps + 1)], axis=2)


class Futures(NamedTuple):
    """What is known of the K steps after each step t of a rollout, bool[T, B, K + 1] each."""

    going: Array  # the episode still goes on at t + k, within the rollout
    over: Array  # its task has ended before: nothing is left to be had
    cut: Array  # the step before was the last that is known: its true successor stands at t + k


def futures(rollout: Rollout, steps: int) -> Futures:
    """Return what is known of the `steps` after each step of a rollout."""
    inside, ended, late = (
        ahead(x, steps) for x in (jnp.ones_like(rollout.done), rollout.terminated, rollout.truncated)
    )
    none = jnp.zeros_like(rollout.done)
    now = Futures(going=inside[..., 0], over=none, cut=none)
    rows = [now]
    for k in range(steps):
        last = late[..., k] | ~inside[..., k + 1]
        end = now.going & ended[..., k]
        now = Futures(
            going=now.going & ~ended[..., k] & ~last,
            over=now.over | end,
            cut=now.going & ~ended[..., k] & last,
        )
        rows.append(now)
    return jax.tree.map(lambda *xs: jnp.stack(xs, axis=-1), *rows)
