"""R2D2: recurrent Q-learning from replayed sequences. `purerl train r2d2 TMaze`.

Every environment explores at a different rate. Rollouts are stored with the recurrent state they began with; drawn
sequences first run without learning to renew that state, then learn n-step double Q targets on rescaled values.
Sequences run on over the endings of episodes, where the recurrent state begins anew.
Source: Kapturowski et al. (2019), "Recurrent experience replay in distributed reinforcement learning". Previous actions
and rewards are seen by the network where the environment's observation holds them.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.exploration import EpsilonGreedy
from purerl.algo_parts.off_policy import (
    OffPolicyAgent,
    OffPolicyConfig,
    learn_from_replay,
    new_agent,
    periodic_update,
)
from purerl.algo_parts.optimizers import adam, apply_gradients
from purerl.algo_parts.q_learning import num_actions
from purerl.algo_parts.schedules import environment_steps, learning_rate
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.q_targets import Windows, at_action, at_last, rescale, unscale, windows
from purerl.networks.encoder import recurrent_encoder
from purerl.networks.q_networks import QHead
from purerl.networks.torsos import RNNS, apply, init
from purerl.replay.sequences import Sequences, SequenceSizes, sequences
from purerl.replay.uniform import Replay
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class R2D2Config(OffPolicyConfig):
    """Settings of R2D2. Steps trained on per step collected: `replay_ratio`."""

    takes_turns: ClassVar[bool] = False  # its sequences are of steps that follow one another
    num_envs: int = static(default=64, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=40, doc="steps between two stored recurrent states", at_least=1)
    rnn: str = static(default="lstm", doc="recurrent state", choices=tuple(RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)
    learning_starts: int = static(default=20_000, doc="environment steps before the first gradient step", at_least=1)
    learning_rate: float = number(default=1e-4, doc="Adam's step size", above=0)
    adam_epsilon: float = static(default=1e-3, doc="added to the root of Adam's second moment", at_least=0)
    max_grad_norm: float = number(default=80.0, doc="global norm that gradients are clipped to", above=0)
    batch_size: int = static(default=32, doc="sequences per gradient step", at_least=1)
    burn_in: int = static(default=40, doc="steps that renew the recurrent state, before those trained on", at_least=0)
    sequence_length: int = static(default=80, doc="steps of a sequence that are trained on", at_least=1)
    replay_capacity: int = static(default=100_000, doc="steps held, all environments together", at_least=1)
    n_step: int = static(default=5, doc="steps of reward before bootstrapping", at_least=1)
    discount: float = number(default=0.997, doc="discount of future rewards, per step", at_least=0, at_most=1)
    target_update_interval: int = number(
        default=2500, doc="gradient steps between copies to the target network", at_least=1
    )
    priority_exponent: float = number(default=0.9, doc="how strongly large errors are replayed", at_least=0)
    importance_sampling_beta: float = number(
        default=0.6, doc="exponent of the importance weights", at_least=0, at_most=1
    )
    epsilon_min: float = number(default=0.0005, doc="lowest exploration rate of an environment", above=0, at_most=1)
    epsilon_max: float = number(default=0.1, doc="highest exploration rate of an environment", above=0, at_most=1)
    epsilon_evaluation: float = number(default=0.001, doc="exploration rate in evaluation", at_least=0, at_most=1)

    @property
    def samples_per_gradient(self) -> int:
        """Steps that a gradient step learns from: those of whole sequences."""
        return self.batch_size * self.sequence_length


class RecurrentQNetwork(NamedTuple):
    """A recurrent Q function, as pure functions."""

    init: Any  # key -> params
    initial_carry: Any  # num_envs -> carry [B, ...]
    step: Any  # (params, carry[...], observation[...]) -> (q f32[..., n], carry[...])
    unroll: Any
    # (params, carry[B], observation[T, B], done[T, B]) ->
    #   (q f32[T, B, n], carry [T, B] after each step, before an ending clears it)


def recurrent_q_network(spec: EnvironmentSpec, config: R2D2Config, size: int) -> RecurrentQNetwork:
    """Return the Q function: a torso, a recurrent layer and a dueling head."""
    base = recurrent_encoder(spec.observation_space, config, config.rnn, config.rnn_size)
    head = QHead(size, hidden_size=config.rnn_size, dueling=True, initializer=config.initializer)

    def initialize(key: Key) -> PyTree:
        key_body, key_head = jax.random.split(key)
        return {"body": base.init(key_body), "head": init(head, key_head, jnp.zeros(base.size))}

    def step(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Array, PyTree]:
        features, carry = base.step(params["body"], carry, observation)
        q = apply(head, params["head"], features)
        return mask_illegal(q, action_mask(observation)), carry

    def unroll(params: PyTree, carry: PyTree, observation: PyTree, done: Array) -> tuple[Array, PyTree]:
        features, after = base.unroll(params["body"], carry, observation, done)
        return mask_illegal(apply(head, params["head"], features), action_mask(observation)), after

    return RecurrentQNetwork(init=initialize, initial_carry=base.initial_carry, step=step, unroll=unroll)


def r2d2(spec: EnvironmentSpec, config: R2D2Config, *, replay: Replay | None = None) -> Algorithm:
    r"""Return R2D2 for an environment with discrete actions.

        loss = w sum_t (Q(s_t, a_t) - y_t)^2 / 2,  y_t = h(R_t + discount^m h^-1(Q'(s_{t+m}, argmax_b Q(s_{t+m}, b))))

    over the steps after the burn-in; m = n_step, or less up to an ending or the end; h as in `rescale`. Left out
    are steps whose window ends with a truncation that is none of the first 1 + rollout_length // 8 of its rollout: the
    replay does not hold what followed it.

    Args:
      spec: the environment's spaces.
      config: the settings.
      replay: of sequences; a prioritized one if none is given.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    validate(config, "r2d2")
    q = recurrent_q_network(spec, config, num_actions(spec, "r2d2"))
    sizes = SequenceSizes(
        capacity=config.replay_capacity,
        num_envs=config.num_envs,
        chunk=config.rollout_length,
        burn_in=config.burn_in,
        train=config.sequence_length,
    )
    stored = (config.learning_starts // config.steps_per_update - sizes.length + 1) * config.num_envs
    if config.batch_size > stored:
        raise InputError(
            f"r2d2: batch_size {config.batch_size} is larger than the {max(stored, 0)} sequences that are stored when "
            f"learning starts, after learning_starts {config.learning_starts} steps"
        )
    buffer = replay or sequences(
        spec,
        sizes,
        jax.eval_shape(lambda: q.initial_carry(config.num_envs)),
        config.batch_size,
        exponent=config.priority_exponent,
        correction=config.importance_sampling_beta,
    )
    rate = lambda num_updates: learning_rate(config, num_updates)
    optimizer = lambda num_updates: adam(rate(num_updates), config.max_grad_norm, config.adam_epsilon)

    def initialize(key: Key) -> OffPolicyAgent:
        params = q.init(key)
        return new_agent(params, params, optimizer(jnp.int32(0)).init(params), buffer)

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        values, carry = q.step(agent.params, carry, observation)
        epsilon = config.epsilon_evaluation
        if explore:
            fraction = jnp.linspace(0.0, 1.0, values.shape[0], dtype=jnp.float32)
            epsilon = config.epsilon_max * (config.epsilon_min / config.epsilon_max) ** fraction
        choose = EpsilonGreedy(start=epsilon, end=epsilon, steps=1.0)
        action = choose(key, values, action_mask(observation), environment_steps(config, agent.num_updates))
        return action, carry, {"q": at_action(values, action), "best_q": jnp.max(values, axis=-1)} if explore else ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        td_error, known = recorded_error(rollout, config)
        rollout = rollout._replace(extras={"td_error": td_error, "known": known})
        return learn_from_replay(agent, key, rollout, buffer, gradient_step, config)

    def gradient_step(agent: OffPolicyAgent, batch: Sequences, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        gradient, (priority, metrics) = jax.grad(loss, has_aux=True)(agent.params, agent.target_params, batch)
        params, opt_state = apply_gradients(optimizer(agent.num_updates), gradient, agent.opt_state, agent.params)
        target_params = periodic_update(
            agent.target_params, params, agent.num_gradient_steps, config.target_update_interval
        )
        agent = agent._replace(params=params, target_params=target_params, opt_state=opt_state)
        return agent, priority, metrics

    def loss(params: PyTree, target_params: PyTree, batch: Sequences) -> tuple[Array, tuple[Array, Metrics]]:
        value, target, valid = values_and_targets(params, target_params, batch)
        td_error = jnp.where(valid, value - target, 0.0)
        error = jnp.abs(td_error)
        steps = jnp.maximum(jnp.sum(valid, axis=0, dtype=jnp.float32), 1.0)
        priority = 0.9 * jnp.max(error, axis=0) + 0.1 * jnp.sum(error, axis=0) / steps
        total = jnp.mean(batch.weight * 0.5 * jnp.sum(td_error**2, axis=0))
        metrics = {
            "loss": total,
            "q_value": masked.mean(unscale(value), valid),
            "td_error": jnp.sum(error) / jnp.sum(steps),
        }
        return total, (priority, metrics)

    def values_and_targets(params: PyTree, target_params: PyTree, batch: Sequences) -> tuple[Array, Array, Array]:
        """Return (Q of the actions taken, targets y, bool: which count), [L, N] each, of the steps after burn-in."""
        early = lambda tree: jax.tree.map(lambda x: x[: config.burn_in], tree)
        late = lambda tree: jax.tree.map(lambda x: x[config.burn_in :], tree)
        done = batch.terminated | batch.truncated
        online = target = batch.carry
        if config.burn_in:
            online = burned_in(params, online, early(batch.observation), early(done))
            target = burned_in(target_params, target, early(batch.observation), early(done))
        values, after = q.unroll(params, jax.lax.stop_gradient(online), late(batch.observation), late(done))
        target_values, target_after = q.unroll(target_params, target, late(batch.observation), late(done))
        best = jnp.argmax(next_values(params, values, after, batch), axis=-1)
        next_value = at_action(next_values(target_params, target_values, target_after, batch), best)
        window = windows(late(batch.reward), late(batch.terminated), late(done), config.discount, config.n_step)
        y = jax.lax.stop_gradient(_targets(window, next_value))
        env = jnp.arange(done.shape[1])
        held = (~late(batch.truncated)).at[batch.follows, env].set(True, mode="drop")
        return at_action(values, late(batch.action)), y, late(batch.mask) & at_last(held, window.last)

    def burned_in(params: PyTree, carry: PyTree, observation: PyTree, done: Array) -> PyTree:
        """Return the carry [N, ...] after the steps [T, N]."""
        _, after = q.unroll(jax.lax.stop_gradient(params), carry, observation, done)
        clear = lambda begin, x: jnp.where(done[-1][:, None], begin, x[-1])
        return jax.tree.map(clear, q.initial_carry(done.shape[1]), after)

    def next_values(params: PyTree, values: Array, after: PyTree, batch: Sequences) -> Array:
        """Return Q of every step's true successor, f32[L, N, n], from Q and the carry after every step."""
        env = jnp.arange(values.shape[1])
        followed = jnp.minimum(batch.follows, values.shape[0] - 1)
        successor_values, _ = q.step(params, jax.tree.map(lambda x: x[followed, env], after), batch.successor)
        following = jnp.concatenate([values[1:], jnp.zeros_like(values[:1])])
        return following.at[batch.follows, env].set(successor_values, mode="drop")

    return Algorithm(init=initialize, initial_carry=q.initial_carry, act=act, update=update)


def recorded_error(rollout: Rollout, config: R2D2Config) -> tuple[Array, Array]:
    """Return (TD errors f32[T, B] of the Q values recorded while acting, bool[T, B]: which are known and count).

    One is known where the task ended with its window, or the value that it bootstraps from was recorded.
    """
    window = windows(rollout.reward, rollout.terminated, rollout.done, config.discount, config.n_step)
    best = rollout.extras["best_q"]
    y = _targets(window, jnp.concatenate([best[1:], jnp.zeros_like(best[:1])]))
    recorded = (window.last < best.shape[0] - 1) & ~at_last(rollout.truncated, window.last)
    known = at_last(rollout.terminated, window.last) | recorded
    return rollout.extras["q"] - y, known if rollout.mask is None else known & rollout.mask


def _targets(window: Windows, next_value: Array) -> Array:
    """Return y f32[L, N] from the value f32[L, N] of every step's successor."""
    return rescale(window.reward + window.discount * unscale(at_last(next_value, window.last)))
