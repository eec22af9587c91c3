"""Disco: an agent that follows a discovered update rule. `purerl train disco Catch --weights disco_103.npz`.

In addition to its policy, the agent predicts vectors y(s) and z(s, a), whose meaning the rule defines, the return q(s,
a), and its next policy. The rule reads rollouts from a replay and returns targets of the policy, y and z. Retrace gives
the targets of q.
Source: Oh et al. (2025), Nature, doi:10.1038/s41586-025-09761-x, with the settings of their code. Two things differ.
Their loss skips the first step of each episode and every 29th step; this one includes all steps. Time limits, which
they do not have, end a rollout for the rule without a termination, followed by the final observation.
"""

import dataclasses
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax

from purerl.algos.off_policy import learn_from_replay, polyak
from purerl.algos.r2d2 import sequence_sizes
from purerl.errors import InputError, told
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.distributional import atoms, expectation, two_hot
from purerl.functional.distributions import action_head
from purerl.functional.normalize import RunningStatistics
from purerl.functional.q_targets import at_last, last_of_episode, rescale, unscale, with_successors
from purerl.networks.disco_rule import DiscoInputs, DiscoRule, DiscoState, DiscoTargets
from purerl.networks.encoder import NetworkConfig, recurrent_encoder
from purerl.networks.modules import Module
from purerl.networks.prediction_heads import PredictionHeads, Predictions
from purerl.networks.q_networks import num_actions
from purerl.networks.torsos import RNNS, apply
from purerl.networks.torsos import init as init_module
from purerl.networks.weights_file import ADDRESS
from purerl.optim.optimizers import GradientPlan, Optimizer, apply_gradients, clipped, optimizer_of, root
from purerl.optim.schedules import Schedule, schedule
from purerl.replay.sequences import Sequences, sequences, successors_held
from purerl.spaces import Box, Dict
from purerl.types import (
    Algorithm,
    Array,
    EnvironmentSpec,
    Key,
    Likelihood,
    Metrics,
    PyTree,
    Rollout,
    number,
    pytree,
    static,
)
from purerl.xla import trees


@pytree
class DiscoConfig(NetworkConfig):
    """Settings of Disco."""

    takes_turns: ClassVar[bool] = False  # its rollouts hold consecutive steps
    weights: str = static(
        default="none", doc="file of the rule's weights, such as disco_103.npz; random: an untrained rule"
    )
    num_envs: int = static(default=2, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=29, doc="steps of each environment per update", at_least=1)
    discount: float = number(default=0.997, doc="discount of future rewards, per step", at_least=0, at_most=1)
    hidden_sizes: tuple[int, ...] = static(default=(512, 512), doc="units of the hidden layers", at_least=1)
    activation: str = "relu"
    initializer: str = "normal"
    rnn: str = static(default="none", doc="type of the recurrent layer", choices=("none", *RNNS))
    rnn_size: int = static(default=128, doc="units of the recurrent state", at_least=1)
    model_size: int = static(default=128, doc="units of the one-step model of actions", at_least=1)
    num_atoms: int = static(default=601, doc="atoms of the distribution of returns", at_least=2)
    v_min: float = number(default=-300.0, doc="lowest atom, of rescaled returns")
    v_max: float = number(default=300.0, doc="highest atom, of rescaled returns")
    learning_rate: float = number(default=3e-4, doc="learning rate of Adam", above=0)
    learning_rate_schedule: Schedule = schedule("constant")
    max_abs_update: float = number(
        default=1.0, doc="limit of each element of Adam's update, before the learning rate", above=0
    )
    batch_size: int = static(default=64, doc="rollouts per gradient step", at_least=1)
    num_gradient_steps: int = static(default=1, doc="gradient steps per update", at_least=1)
    replay_capacity: int = static(default=29_696, doc="capacity of the replay, in environment steps", at_least=1)
    learning_starts: int = static(default=1_856, doc="environment steps before the first gradient step", at_least=1)
    trace_lambda: float = number(default=0.95, doc="lambda of Retrace", at_least=0, at_most=1)
    tau: float = number(default=0.1, doc="Polyak coefficient of the target update", above=0, at_most=1)
    policy_coefficient: float = number(default=1.0, doc="weight of the policy's divergence", at_least=0)
    y_coefficient: float = number(default=1.0, doc="weight of y's divergence", at_least=0)
    z_coefficient: float = number(default=1.0, doc="weight of z's divergence", at_least=0)
    auxiliary_coefficient: float = number(default=1.0, doc="weight of the next policy's divergence", at_least=0)
    value_coefficient: float = number(default=0.2, doc="weight of the loss of q", at_least=0)

    @property
    def replay_ratio(self) -> float:
        """Steps of gradient batches per collected environment step, once learning has started."""
        return self.num_gradient_steps * self.samples_per_gradient / self.steps_per_update

    @property
    def samples_per_gradient(self) -> int:
        """Steps in a gradient batch, which consists of complete rollouts."""
        return self.batch_size * self.rollout_length

    def resumed(self) -> Self:
        """Return the config with random weights, which a checkpoint's weights replace."""
        return dataclasses.replace(self, weights="random")


class DiscoAgent(NamedTuple):
    """The state of an agent, including a rule from a file, so that a checkpoint needs no other file."""

    params: PyTree
    target_params: PyTree
    opt_state: PyTree
    replay: PyTree
    rule: DiscoRule | None  # the rule from a file; None: the rule is an argument of the algorithm
    rule_state: DiscoState
    num_updates: Array  # i32[], so far; drives every schedule
    num_gradient_steps: Array  # i32[]; it may wrap around
    observation_statistics: RunningStatistics | None  # none: observations are not normalized


def disco(
    spec: EnvironmentSpec,
    config: DiscoConfig,
    *,
    rule: DiscoRule | None = None,
    optimizer: Optimizer | None = None,
    network: Module | None = None,
) -> Algorithm:
    r"""Return an agent that follows Disco's rule, for an environment with discrete actions.

        loss = c_p KL(pi^ || pi) + c_y KL(y^ || y) + c_z KL(z^ || z_a) + c_a KL(pi' || p_a) + c_v CE(Retrace, q_a)

    with pi^, y^ and z^ from the rule, pi' the policy in the next state and p its prediction.

    Args:
      spec: the environment's spaces.
      config: the settings.
      rule: the rule; by default the one in the file `config.weights`.
      optimizer: an optax optimizer such as `optax.lion`, or a function `GradientPlan` -> optax transformation; by
        default Adam whose steps are clipped.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the recurrent
        layer and the heads.

    Raises:
      InputError: if the settings contradict one another, the actions are not discrete or there are no weights.
    """
    validate(config, "disco")
    size = num_actions(spec, "disco")
    given = _given(rule, config)
    rule = _rule_of(config) if given is None else given
    support = atoms("disco", config.num_atoms, config.v_min, config.v_max)
    base = recurrent_encoder(spec.observation_space, config, config.rnn, config.rnn_size, network)
    head = action_head(spec.action_space)
    heads = PredictionHeads(
        num_actions=size,
        num_predictions=rule.predictions,
        num_atoms=config.num_atoms,
        model_size=config.model_size,
        initializer=config.initializer,
    )
    logits = Box(low=-jnp.inf, high=jnp.inf, shape=(size,))
    buffer = sequences(
        spec._replace(action_space=Dict(spaces={"action": spec.action_space, "policy": logits})),
        sequence_sizes(config, 0, config.rollout_length, "disco"),
        jax.eval_shape(lambda: base.initial_carry(config.num_envs)),
        config.batch_size,
        exponent=0.0,  # all rollouts are as likely
    )
    by_default = partial(_adam_clipped_by_plan, max_abs_update=config.max_abs_update)
    optimizer_at = optimizer_of(config, config.num_gradient_steps, by_default if optimizer is None else optimizer)

    def init(key: Key) -> DiscoAgent:
        key_body, key_heads = jax.random.split(key)
        params = {"body": base.init(key_body), "heads": init_module(heads, key_heads, jnp.zeros(base.size))}
        return DiscoAgent(
            params=params,
            target_params=jax.tree.map(jnp.copy, params),  # a copy, so that the state can be donated
            opt_state=optimizer_at.init(params),
            replay=buffer.init(),
            rule=jax.tree.map(jnp.asarray, rule) if given is None else None,
            rule_state=rule.initial_carry(),
            num_updates=jnp.int32(0),
            num_gradient_steps=jnp.int32(0),
            observation_statistics=None,
        )

    def act(agent: DiscoAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        features, carry = base.step(agent.params["body"], carry, observation)
        scores, policy = policy_of(agent, features, observation)
        if not explore:
            return head.to_action(policy.mode()), carry, ()
        return head.to_action(policy.sample(seed=key)), carry, {"policy": scores}

    def policy_of(agent: DiscoAgent, features: Array, observation: PyTree) -> tuple[Array, Any]:
        """Return (the logits of legal actions, the policy)."""
        scores = mask_illegal(apply(heads, agent.params["heads"], features).policy, action_mask(observation))
        return scores, head.distribution(scores, jnp.zeros(head.num_log_std))

    def update(agent: DiscoAgent, key: Key, rollout: Rollout) -> tuple[DiscoAgent, Metrics]:
        unknown = {"td_error": jnp.zeros_like(rollout.reward), "known": jnp.zeros_like(rollout.done)}
        stored = {"action": rollout.action, "policy": rollout.extras["policy"]}
        return learn_from_replay(
            agent,
            key,
            rollout._replace(action=stored, extras=unknown),
            replay=buffer,
            gradient_step=gradient_step,
            config=config,
        )

    def gradient_step(agent: DiscoAgent, batch: Sequences, _: Key) -> tuple[DiscoAgent, Array, Metrics]:
        batch = _without_unknown_states(batch)
        done = batch.terminated | batch.truncated
        mask = batch.mask & (batch.weight > 0.0) & at_last(successors_held(batch, 0), last_of_episode(done))
        batch = batch._replace(mask=mask)
        inputs = DiscoInputs(
            action=batch.action["action"],
            reward=batch.reward,
            terminated=batch.terminated,
            done=done,
            mask=mask,
            follows=batch.follows,
            behavior=batch.action["policy"],
            agent=predictions(agent.params, batch),
            target=predictions(agent.target_params, batch),
            support=support,
            discount=config.discount,
            trace_lambda=config.trace_lambda,
        )
        follow = agent.rule if given is None else given
        assert follow is not None
        targets, rule_state = follow(agent.rule_state, inputs)
        targets = targets._replace(policy=mask_illegal(targets.policy, action_mask(batch.observation)))
        gradient, metrics = jax.grad(loss, has_aux=True)(agent.params, batch, inputs, targets)
        params, opt_state = apply_gradients(optimizer_at(agent.num_updates), gradient, agent.opt_state, agent.params)
        learned = agent._replace(
            params=params,
            target_params=polyak(agent.target_params, agent.params, config.tau),  # toward the params before the step
            opt_state=opt_state,
            rule_state=rule_state,
        )
        return learned, jnp.zeros(config.batch_size), metrics

    def likelihood(agent: DiscoAgent, rollout: Rollout) -> Likelihood:
        features, _ = base.unroll(agent.params["body"], rollout.carry, rollout.observation, rollout.done)
        _, policy = policy_of(agent, features, rollout.observation)
        return Likelihood(log_prob=policy.log_prob(rollout.action), entropy=policy.entropy())

    def predictions(params: PyTree, batch: Sequences) -> Predictions:
        """Return the agent's predictions in the T states of a batch and in its K successors, [T + K, N, ...]."""
        done, env = batch.terminated | batch.truncated, jnp.arange(batch.reward.shape[1])
        features, after = base.unroll(params["body"], batch.carry, batch.observation, done)
        followed = jnp.minimum(batch.follows, done.shape[0] - 1)
        later, _ = base.step(params["body"], jax.tree.map(lambda x: x[followed, env], after), batch.successor)
        found: Predictions = apply(heads, params["heads"], jnp.concatenate([features, later]))
        mask, later_mask = action_mask(batch.observation), action_mask(batch.successor)
        both = None if mask is None or later_mask is None else jnp.concatenate([mask, later_mask])
        return found._replace(policy=mask_illegal(found.policy, both))

    def loss(params: PyTree, batch: Sequences, inputs: DiscoInputs, targets: DiscoTargets) -> tuple[Array, Metrics]:
        features, _ = base.unroll(params["body"], batch.carry, batch.observation, inputs.done)
        now: Predictions = apply(heads, params["heads"], features, inputs.action)  # for the actions taken
        now = now._replace(policy=mask_illegal(now.policy, action_mask(batch.observation)))
        means = {name: masked.mean(x, inputs.mask) for name, x in loss_terms(inputs, now, targets).items()}
        total = jnp.zeros(())
        for name, mean in means.items():
            total = total + getattr(config, f"{name}_coefficient") * mean
        value = unscale(expectation(now.q, support))
        policy = head.distribution(now.policy, jnp.zeros(head.num_log_std))
        metrics = {f"{name}_loss": x for name, x in means.items()} | {
            "loss": total,
            "entropy": masked.mean(policy.entropy(), inputs.mask),
            "q_value": masked.mean(value, inputs.mask),
            "td_error": masked.mean(jnp.abs(targets.value - value), inputs.mask),
        }
        return total, metrics

    return Algorithm(init=init, initial_carry=base.initial_carry, act=act, update=update, likelihood=likelihood)


def loss_terms(inputs: DiscoInputs, now: Predictions, targets: DiscoTargets) -> dict[str, Array]:
    """Return the unweighted terms of the loss, f32[T, B] each.

    Args:
      inputs: the inputs of the rule; `next_policy` learns their policy in the next states.
      now: [T, B, ...], of the actions taken.
      targets: the rule's.
    """
    length = inputs.reward.shape[0]
    next_policy = with_successors(inputs.agent.policy[:length], inputs.agent.policy[length:], inputs.follows)
    value = two_hot(rescale(targets.value), inputs.support)
    return {
        "policy": divergence(targets.policy, now.policy),
        "y": divergence(targets.y, now.y),
        "z": divergence(targets.z, now.z),
        "auxiliary": jnp.where(inputs.terminated, 0.0, divergence(next_policy, now.next_policy)),
        "value": -jnp.sum(value * jax.nn.log_softmax(now.q), axis=-1),
    }


def divergence(target: Array, logits: Array) -> Array:
    """Return KL(target || prediction) f32[...] of distributions given as logits f32[..., n]."""
    log_target = jax.nn.log_softmax(target)
    return jnp.sum(jnp.exp(log_target) * (log_target - jax.nn.log_softmax(logits)), axis=-1)


def _given(rule: object, config: DiscoConfig) -> DiscoRule | None:
    """Return the rule that is an argument, if there is one."""
    if rule is not None and not isinstance(rule, DiscoRule):
        raise InputError(f"rule is {told(rule)}; it must be a DiscoRule of purerl.networks.disco_rule")
    if rule is not None and config.weights not in ("none", "random"):
        raise InputError(f"disco has a rule and the weights of another one, {config.weights}: give one of them")
    return rule


def _rule_of(config: DiscoConfig) -> DiscoRule:
    if config.weights == "none":
        raise InputError(f"disco needs the weights of its rule: --weights disco_103.npz, the file at {ADDRESS}")
    return DiscoRule.create(jax.random.key(0)) if config.weights == "random" else DiscoRule.load(config.weights)


def _without_unknown_states(batch: Sequences) -> Sequences:
    """Return a batch without data of steps that do not count, and without states that follow a termination.

    After a termination, the rule expects the first observation of the next episode. At the end of a rollout that is
    not known, so the last observation replaces it.
    """
    last = lambda tree: jax.tree.map(lambda x: x[-1], tree)
    following = trees.where(batch.terminated[-1], last(batch.observation), last(batch.successor))
    return batch._replace(
        observation=trees.where(batch.mask, batch.observation, jax.tree.map(jnp.zeros_like, batch.observation)),
        successor=jax.tree.map(lambda x, y: x.at[-1].set(y), batch.successor, following),
    )


def _adam_clipped_by_plan(plan: GradientPlan, max_abs_update: Array | float) -> optax.GradientTransformation:
    """Return Adam for a plan, with each number of its step clipped before the learning rate."""
    clip: optax.GradientTransformation = optax.clip(max_abs_update)  # type: ignore[arg-type]
    return clipped(
        optax.chain(optax.scale_by_adam(eps_root=root()), clip, optax.scale_by_learning_rate(plan.learning_rate)), None
    )
