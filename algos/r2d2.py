"""R2D2: recurrent Q-learning from replayed sequences. `purerl train r2d2 TMaze`.

Every environment explores at a different rate. Rollouts are stored with their initial recurrent state. Sampled
sequences first run without learning to refresh that state, then learn n-step double Q targets on rescaled values.
Sequences continue across the ends of episodes, where the recurrent state is reset.
Source: Kapturowski et al. (2019), "Recurrent experience replay in distributed reinforcement learning". The network sees
previous actions and rewards only if the environment's observation contains them.
"""

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from purerl.algos.dqn import q_gradient_step
from purerl.algos.off_policy import OffPolicyAgent, OffPolicyConfig, learn_from_replay, new_agent
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask
from purerl.functional.exploration import EpsilonGreedy, greedy
from purerl.functional.q_targets import (
    Windows,
    at_action,
    at_best,
    at_last,
    last_of_episode,
    rescale,
    retrace,
    unscale,
    windows,
    with_successors,
)
from purerl.functional.returns import lambda_returns
from purerl.networks.modules import Module
from purerl.networks.q_networks import num_actions
from purerl.networks.recurrent_q_network import RecurrentQNetwork, recurrent_q_network
from purerl.networks.torsos import RNNS
from purerl.optim.optimizers import Optimizer, adam_by_plan, optimizer_of
from purerl.optim.schedules import environment_steps
from purerl.replay.sequences import (
    Sequences,
    SequenceSizes,
    after_burn_in,
    sequences,
    successors_held,
)
from purerl.replay.uniform import Replay
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static
from purerl.xla import trees


@pytree
class R2D2Config(OffPolicyConfig):
    """Settings of R2D2. `replay_ratio` is the number of trained steps per collected step."""

    takes_turns: ClassVar[bool] = False  # its sequences hold consecutive steps
    num_envs: int = static(default=64, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=40, doc="steps between two stored recurrent states", at_least=1)
    rnn: str = static(default="lstm", doc="type of the recurrent layer", choices=tuple(RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)
    learning_starts: int = static(default=20_000, doc="environment steps before the first gradient step", at_least=1)
    learning_rate: float = number(default=1e-4, doc="learning rate of Adam", above=0)
    adam_epsilon: float = static(default=1e-3, doc="epsilon of Adam", at_least=0)
    max_grad_norm: float = number(default=80.0, doc="global norm that gradients are clipped to", above=0)
    batch_size: int = static(default=32, doc="sequences per gradient step (paper: 64)", at_least=1)
    burn_in: int = static(
        default=40, doc="burn-in steps that refresh the recurrent state before the trained steps", at_least=0
    )
    sequence_length: int = static(default=80, doc="trained steps of a sequence", at_least=1)
    replay_capacity: int = static(
        default=100_000, doc="capacity of the replay, in environment steps (paper: 4,000,000)", at_least=1
    )
    target: str = static(
        default="n-step",
        doc="target of the TD error: n_step steps, Peng's Q(lambda) or Retrace(lambda)",
        choices=("n-step", "peng", "retrace"),
    )
    n_step: int = static(default=5, doc="steps of reward before bootstrapping", at_least=1)
    trace_lambda: float = number(default=0.7, doc="lambda of peng and retrace", at_least=0, at_most=1)
    discount: float = number(default=0.997, doc="discount of future rewards, per step", at_least=0, at_most=1)
    target_update_interval: int = number(
        default=2500, doc="gradient steps between copies to the target network", at_least=1
    )
    priority_exponent: float = number(default=0.9, doc="exponent of the priorities", at_least=0)
    importance_sampling_beta: float = number(
        default=0.6, doc="exponent of the importance weights", at_least=0, at_most=1
    )
    epsilon_min: float = number(default=0.0005, doc="lowest exploration rate of an environment", above=0, at_most=1)
    epsilon_max: float = number(default=0.1, doc="highest exploration rate of an environment", above=0, at_most=1)

    @property
    def samples_per_gradient(self) -> int:
        """Steps in a gradient batch, which consists of complete sequences."""
        return self.batch_size * self.sequence_length


def r2d2(
    spec: EnvironmentSpec,
    config: R2D2Config,
    *,
    optimizer: Optimizer | None = None,
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return R2D2 for an environment with discrete actions.

        loss = w sum_t (Q(s_t, a_t) - y_t)^2 / 2,  y_t = h(R_t + discount^m h^-1(Q'(s_{t+m}, argmax_b Q(s_{t+m}, b))))

    over the steps after the burn-in; m = n_step, or less up to an ending or the end; h as in `rescale`. With `target`
    "peng" y is h of the lambda return, with "retrace" h of the Retrace return for the greedy policy. The replay holds
    the final observations of only the first 1 + rollout_length // 8 truncations of a rollout; steps whose target looks
    beyond a later truncation are left out.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the recurrent
        layer.
      replay: a replay of sequences; by default a prioritized one.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    validate(config, "r2d2")
    size = num_actions(spec, "r2d2")
    q = recurrent_q_network(
        spec.observation_space, size, config, rnn=config.rnn, rnn_size=config.rnn_size, network=network
    )
    sizes = sequence_sizes(config, config.burn_in, config.sequence_length, "r2d2")
    buffer = replay or sequences(
        spec,
        sizes,
        jax.eval_shape(lambda: q.initial_carry(config.num_envs)),
        config.batch_size,
        exponent=config.priority_exponent,
        correction=config.importance_sampling_beta,
    )
    adam = partial(adam_by_plan, eps=config.adam_epsilon)
    optimizer_at = optimizer_of(config, config.num_gradient_steps, adam if optimizer is None else optimizer)

    def init(key: Key) -> OffPolicyAgent:
        params = q.init(key)
        return new_agent(params, params, optimizer_at(jnp.int32(0)).init(params), buffer)

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        values, carry = q.step(agent.params, carry, observation)
        mask, num_steps = action_mask(observation), environment_steps(config, agent.num_updates)
        if not explore:
            return greedy(key, values, mask, num_steps), carry, ()
        fraction = jnp.linspace(0.0, 1.0, values.shape[0], dtype=jnp.float32)
        epsilon = config.epsilon_max * (config.epsilon_min / config.epsilon_max) ** fraction
        action = EpsilonGreedy(start=epsilon, end=epsilon, steps=1.0)(key, values, mask, num_steps)
        return action, carry, {"q": at_action(values, action), "best_q": jnp.max(values, axis=-1)}

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        td_error, known = recorded_error(rollout, config)
        rollout = rollout._replace(extras={"td_error": td_error, "known": known})
        gradient_step = q_gradient_step(loss, optimizer_at, config.target_update_interval)
        return learn_from_replay(agent, key, rollout, replay=buffer, gradient_step=gradient_step, config=config)

    def loss(params: PyTree, target_params: PyTree, batch: Sequences, _: Key):
        value, target, valid = values_and_targets(params, target_params, batch)
        td_error = jnp.where(valid, value - target, 0.0)
        error = jnp.abs(td_error)
        steps = jnp.maximum(jnp.sum(valid, axis=0, dtype=jnp.float32), 1.0)
        priority = 0.9 * jnp.max(error, axis=0) + 0.1 * jnp.sum(error, axis=0) / steps
        total = jnp.mean(batch.weight * 0.5 * jnp.sum(td_error**2, axis=0))
        metrics = {"q_value": masked.mean(unscale(value), valid), "td_error": jnp.sum(error) / jnp.sum(steps)}
        return total, (priority, metrics)

    def values_and_targets(params: PyTree, target_params: PyTree, batch: Sequences) -> tuple[Array, Array, Array]:
        """Return (Q of the actions taken; targets y; which count, bool), [L, N] each, for the steps after burn-in."""
        values, next_q = sequence_values(q, params, batch, config.burn_in)
        target_values, next_target_q = sequence_values(q, target_params, batch, config.burn_in)
        late, held = after_burn_in(batch, config.burn_in), successors_held(batch, config.burn_in)
        next_value = at_best(next_target_q, next_q)
        greedy = jnp.argmax(values, axis=-1) == late.action
        y, last = targets(late, next_value, at_action(target_values, late.action), greedy)
        return at_action(values, late.action), jax.lax.stop_gradient(y), late.mask & at_last(held, last)

    def targets(batch: Sequences, next_value: Array, taken: Array, greedy: Array) -> tuple[Array, Array]:
        """Return (y f32[L, N], i32[L, N]: the last step that each target depends on)."""
        reward, terminated, done = batch.reward, batch.terminated, batch.terminated | batch.truncated
        if config.target == "n-step":
            window = windows(reward, terminated, done, config.discount, config.n_step)
            return _targets(window, next_value), window.last
        value = unscale(next_value)
        if config.target == "peng":
            y = lambda_returns(
                reward, value, terminated, done, discount=config.discount, trace_lambda=config.trace_lambda
            )
        else:
            later = lambda x: jnp.concatenate([x[1:], jnp.zeros_like(x[:1])])
            trace = config.trace_lambda * greedy.astype(jnp.float32)
            y = retrace(
                reward,
                value,
                next_taken=later(unscale(taken)),
                trace=later(trace),
                terminated=terminated,
                done=done,
                discount=config.discount,
            )
        return rescale(y), last_of_episode(done)

    return Algorithm(init=init, initial_carry=q.initial_carry, act=act, update=update)


def recorded_error(rollout: Rollout, config: R2D2Config) -> tuple[Array, Array]:
    """Return (TD errors f32[T, B] of the Q values recorded while acting; which are known and count, bool[T, B]).

    An error is known if the task ended within its window, or if its bootstrap value was recorded.
    """
    window = windows(rollout.reward, rollout.terminated, rollout.done, config.discount, config.n_step)
    best = rollout.extras["best_q"]
    y = _targets(window, jnp.concatenate([best[1:], jnp.zeros_like(best[:1])]))
    recorded = (window.last < best.shape[0] - 1) & ~at_last(rollout.truncated, window.last)
    known = at_last(rollout.terminated, window.last) | recorded
    return rollout.extras["q"] - y, known if rollout.mask is None else known & rollout.mask


def _targets(window: Windows, next_value: Array) -> Array:
    """Return the targets y f32[L, N] from the value f32[L, N] of every step's successor."""
    return rescale(window.reward + window.discount * unscale(at_last(next_value, window.last)))


def sequence_sizes(config: Any, burn_in: int, train: int, what: str) -> SequenceSizes:
    """Return the sizes of an algorithm's sequences, whose chunks are one rollout each.

    Args:
      config: the replay's and the rollout's settings.
      burn_in, train: steps of a sequence that renew the carry, and that are learned from.
      what: the algorithm, for the error.

    Raises:
      InputError: if a batch is larger than the sequences that are stored when learning starts.
    """
    sizes = SequenceSizes(
        capacity=config.replay_capacity,
        num_envs=config.num_envs,
        chunk=config.rollout_length,
        burn_in=burn_in,
        train=train,
    )
    stored = (config.learning_starts // config.steps_per_update - sizes.length + 1) * sizes.num_envs
    if config.batch_size > stored:
        raise InputError(
            f"{what}: batch_size {config.batch_size} is larger than the {max(stored, 0)} sequences that are stored "
            f"when learning starts, after learning_starts {config.learning_starts} steps"
        )
    return sizes


def sequence_values(q: RecurrentQNetwork, params: PyTree, batch: Sequences, burn_in: int) -> tuple[Array, Array]:
    """Return Q along sequences, after `burn_in` steps that only refresh the carry.

    Args:
      q: the network.
      params: its parameters.
      batch: a batch of burn_in + L steps.
      burn_in: steps.

    Returns:
      (Q of every step f32[L, N, n], Q of its next or final observation f32[L, N, n], where `successors_held`).
    """
    done, carry, late = batch.terminated | batch.truncated, batch.carry, after_burn_in(batch, burn_in)
    if burn_in:
        early = jax.tree.map(lambda x: x[:burn_in], batch.observation)
        _, after = q.unroll(jax.lax.stop_gradient(params), carry, early, done[:burn_in])
        last = jax.tree.map(lambda x: x[-1], after)
        carry = trees.where(done[burn_in - 1], q.initial_carry(done.shape[1]), last)
    values, after = q.unroll(params, jax.lax.stop_gradient(carry), late.observation, done[burn_in:])
    env = jnp.arange(done.shape[1])
    followed = jnp.minimum(batch.follows, values.shape[0] - 1)
    successor_values, _ = q.step(params, jax.tree.map(lambda x: x[followed, env], after), batch.successor)
    return values, with_successors(values, successor_values, batch.follows)
