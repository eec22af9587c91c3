"""MuZero: MCTS in a model that is learned with the policy. `purerl train muzero CartPole-v1`.

A network represents an observation as a latent state, predicts the reward of an action and the next latent state, and
predicts the policy and the value from a latent state. Before each action, a tree grows in latent states only. After the
rollout, the model is unrolled along it and learns the policy of the MCTS, the return and the reward at each step.
Source: Schrittwieser et al. (2020), arXiv:1911.08265; the default MCTS: Danihelka et al. (2022), "Policy improvement by
planning with Gumbel", openreview.net/forum?id=bERaNdoegnO; sampled actions if they are not discrete: Hubert et al.
(2021), arXiv:2104.06303. It learns on-policy, from each rollout, without a replay. Values and rewards are scalars.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import mctx

from purerl.algos.alphazero import learn_from_search, new_agent
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask
from purerl.functional.distributions import action_head, masked_policy
from purerl.functional.normalize import normalized
from purerl.networks.actor_critic import PolicyAgent
from purerl.networks.latent_model import latent_model
from purerl.networks.modules import Module
from purerl.optim.minibatch import check_minibatches
from purerl.optim.optimizers import Optimizer, adam_by_plan, optimizer_of
from purerl.planning.acting import act_by_search
from purerl.planning.candidates import candidate_actions, log_probs, take_actions
from purerl.planning.config import SearchConfig
from purerl.planning.search import recurrent_output
from purerl.planning.value_targets import from_scale, search_returns, to_scale
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class MuZeroConfig(SearchConfig):
    """Settings of MuZero."""

    unroll_steps: int = static(default=5, doc="steps that the model is unrolled along a rollout", at_least=1)
    td_lambda: float = number(
        default=0.95, doc="lambda of the value targets; 1: full returns, 0: one step", at_least=0, at_most=1
    )
    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    reward_coefficient: float = number(default=1.0, doc="weight of the reward loss", at_least=0)


class Embedding(NamedTuple):
    """The content of a tree for B nodes."""

    candidates: PyTree  # [B, K, ...], the actions of `Candidates`
    latent: Array  # f32[B, m]


class Batch(NamedTuple):
    """The training data of each step of a rollout and of the next K steps, [T, B, ...], or of a minibatch."""

    observation: PyTree
    action: PyTree  # [..., K, ...]
    reward: Array  # f32[..., K], on the network's scale
    candidates: PyTree  # [..., K + 1, n, ...], the candidate actions at the roots; () if they are discrete
    action_weights: Array  # f32[..., K + 1, n], the policies of the MCTS
    value_target: Array  # f32[..., K + 1], the return, on the network's scale
    futures: "Futures"  # which of these are known
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

    over k = 0 .. K steps of the model from a step of the rollout. a: the candidate actions at the root, all of a
    discrete space or samples of the policy; w: the policies of the MCTS; G: the lambda returns over its root values;
    R: the rewards on the way to k; c_0 = 1 and c_k = 1 / K. The gradient that flows from one step of the model to the
    previous one is halved. Legal actions are only known at the root. After a termination the return and the reward are
    0. After a truncation, or at the end of the rollout, the last target is the value of the final or next observation.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n] and replaces the torso
        of the representation.

    Raises:
      InputError: if the settings contradict one another.
    """
    validate(config, "muzero")
    check_minibatches(config, False, "muzero")
    head = action_head(spec.action_space)
    net = latent_model(spec.observation_space, spec.action_space, config, network)
    optimizer_at = optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)

    def init(key: Key) -> PolicyAgent:
        return new_agent(net.init(key), optimizer_at, spec, config)

    def act(agent: PolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        legal_actions = action_mask(observation)
        latent = net.represent(agent.params, normalized(agent.observation_statistics, observation))
        policy, value = net.predict(agent.params, latent)
        action, extras = act_by_search(
            config,
            key,
            space=spec.action_space,
            head=head,
            policy=policy if legal_actions is None else masked_policy(policy, legal_actions),
            value=from_scale(config, value),
            embed=lambda candidates: Embedding(candidates=candidates, latent=latent),
            params=agent.params,
            recurrent_fn=recurrent_fn,
            observation=observation,
            explore=explore,
        )
        return action, carry, extras

    def recurrent_fn(
        params: PyTree, key: Key, action: Array, embedding: Embedding
    ) -> tuple[mctx.RecurrentFnOutput, Embedding]:
        """Step B latents by B actions in the model."""
        chosen = head.to_action(take_actions(embedding.candidates, action))
        latent, reward = net.advance(params, embedding.latent, chosen)
        policy, value = net.predict(params, latent)
        candidates, prior_logits = candidate_actions(policy, key, config)
        output = recurrent_output(
            reward=from_scale(config, reward),
            discount=jnp.full_like(reward, config.discount),
            prior_logits=prior_logits,
            value=from_scale(config, value),
        )
        return output, Embedding(candidates=candidates, latent=latent)

    def targets(agent: PolicyAgent, rollout: Rollout) -> Batch:
        acted_by = agent.observation_statistics if rollout.statistics is None else rollout.statistics
        next_latent = net.represent(agent.params, normalized(acted_by, rollout.next_observation))
        next_value = from_scale(config, net.predict(agent.params, next_latent)[1])
        returns = search_returns(rollout, next_value, config.discount, config.td_lambda)
        steps, known = config.unroll_steps, futures(rollout, config.unroll_steps)
        later = lambda x: ahead(x, steps)
        final_value = jnp.pad(later(next_value)[..., :-1], ((0, 0), (0, 0), (1, 0)))
        value_target = jnp.where(known.ongoing, later(returns), jnp.where(known.bootstrap, final_value, 0.0))
        # After the end of an episode any actions will do; these come from the rollout's next episode or first steps.
        around = lambda x: jnp.stack([jnp.roll(x, -k, axis=0) for k in range(steps)], axis=2)
        return Batch(
            observation=normalized(acted_by, rollout.observation),
            action=jax.tree.map(around, rollout.action),
            reward=to_scale(config, jnp.where(known.ongoing, later(rollout.reward), 0.0))[..., :-1],
            candidates=jax.tree.map(later, rollout.extras["candidates"]),
            action_weights=later(rollout.extras["action_weights"]),
            value_target=to_scale(config, value_target),
            futures=known,
            mask=rollout.mask,
        )

    def loss(params: PyTree, batch: Batch, carry: PyTree) -> tuple[Array, Metrics]:
        latent, known = net.represent(params, batch.observation), batch.futures
        parts = []
        for k in range(config.unroll_steps + 1):
            weight = 1.0 if k == 0 else 1.0 / config.unroll_steps
            reward_error = jnp.zeros_like(batch.value_target[..., 0])
            if k > 0:
                latent, reward = net.advance(params, latent, jax.tree.map(lambda x, k=k: x[:, k - 1], batch.action))
                reward_error = 0.5 * (reward - batch.reward[..., k - 1]) ** 2
            policy, value = net.predict(params, latent)
            if k > 0:
                latent = 0.5 * latent + 0.5 * jax.lax.stop_gradient(latent)
            candidates = jax.tree.map(lambda x, k=k: x[:, k], batch.candidates)
            cross_entropy = -jnp.sum(batch.action_weights[:, k] * log_probs(policy, candidates), axis=-1)
            value_error = 0.5 * (value - batch.value_target[..., k]) ** 2
            ongoing, absorbing, bootstrap = known.at(k)
            was_ongoing, was_absorbing, _ = known.at(k - 1)
            part = {
                "policy_loss": jnp.where(ongoing, cross_entropy, 0.0),
                "entropy": jnp.where(ongoing, policy.entropy(), 0.0),
                "value_loss": jnp.where(ongoing | absorbing | bootstrap, value_error, 0.0),
                "reward_loss": jnp.where(was_ongoing | was_absorbing, reward_error, 0.0),
            }
            parts.append({name: weight * x for name, x in part.items()})
        samples = {name: jnp.sum(jnp.stack([part[name] for part in parts]), axis=0) for name in parts[0]}
        metrics = masked.means(samples, batch.mask)
        total = metrics["policy_loss"] + config.value_coefficient * metrics["value_loss"]
        total = total - config.entropy_coefficient * metrics["entropy"]
        return total + config.reward_coefficient * metrics["reward_loss"], metrics

    def update(agent: PolicyAgent, key: Key, rollout: Rollout) -> tuple[PolicyAgent, Metrics]:
        batch = targets(agent, rollout)
        return learn_from_search(
            agent,
            key,
            rollout,
            batch=batch,
            value_target=batch.value_target[..., 0],
            loss=loss,
            optimizer_at=optimizer_at,
            config=config,
        )

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


class Futures(NamedTuple):
    """Masks of the K steps after each step t of a rollout, bool[T, B, K + 1] each."""

    ongoing: Array  # at t + k the episode continues, within the rollout
    absorbing: Array  # the episode has terminated before t + k: rewards and returns are 0
    bootstrap: Array  # t + k is the first step after a truncation or the rollout: only the value there is known

    def at(self, k: int) -> "Futures":
        """Return the masks of the k-th step, bool[T, B] each."""
        return Futures(ongoing=self.ongoing[..., k], absorbing=self.absorbing[..., k], bootstrap=self.bootstrap[..., k])


def futures(rollout: Rollout, steps: int) -> Futures:
    """Return the masks of the `steps` after each step of a rollout."""
    inside, terminated, truncated = (
        ahead(x, steps) for x in (jnp.ones_like(rollout.done), rollout.terminated, rollout.truncated)
    )
    none = jnp.zeros_like(rollout.done)
    now = Futures(ongoing=inside[..., 0], absorbing=none, bootstrap=none)
    rows = [now]
    for k in range(steps):
        last = truncated[..., k] | ~inside[..., k + 1]
        now = Futures(
            ongoing=now.ongoing & ~terminated[..., k] & ~last,
            absorbing=now.absorbing | now.ongoing & terminated[..., k],
            bootstrap=now.ongoing & ~terminated[..., k] & last,
        )
        rows.append(now)
    return jax.tree.map(lambda *xs: jnp.stack(xs, axis=-1), *rows)


def ahead(x: Array, steps: int) -> Array:
    """Return x[t + k], k = 0 .. steps, for x [T, B, ...]: [T, B, steps + 1, ...]; zeros beyond the end."""
    padded = jnp.concatenate([x, jnp.zeros((steps, *x.shape[1:]), x.dtype)])
    return jnp.stack([padded[k : k + x.shape[0]] for k in range(steps + 1)], axis=2)
