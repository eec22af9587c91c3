"""PQN: Q-learning in many environments at once, without a replay or a target network. `purerl train pqn CartPole-v1`.

Collect a rollout epsilon-greedily, compute Q(lambda) returns backward through it, and regress on them in several
epochs of minibatches. Layer normalization keeps this stable.
Source: Gallici et al. (2024), arXiv:2407.04811. This version bootstraps the last step from the value *after* it, and
truncated episodes from their final observation; the reference starts the recursion one step off. PQN does not use
double Q. Targets come from one pass before the epochs, over steps that the same parameters chose, so the error that a
second estimate would remove is small. With a lambda below 1 it would also mix the values of two networks along one
trace.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.fields import validate
from purerl.functional import masked
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.counters import increment
from purerl.functional.exploration import Exploration, epsilon_greedy, greedy
from purerl.functional.q_targets import at_action
from purerl.functional.returns import lambda_returns
from purerl.networks.encoder import NetworkConfig, recurrent_encoder
from purerl.networks.modules import Module
from purerl.networks.q_networks import num_actions
from purerl.networks.torsos import ACTIVATIONS, RNNS, apply, dense
from purerl.networks.torsos import init as init_module
from purerl.optim.minibatch import check_minibatches, minibatch_epochs
from purerl.optim.optimizers import Optimizer, optimizer_of, radam_by_plan
from purerl.optim.schedules import Schedule, environment_steps, schedule
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class PQNConfig(NetworkConfig):
    """Settings of PQN."""

    num_envs: int = static(default=32, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=64, doc="steps of each environment per update", at_least=1)
    hidden_sizes: tuple[int, ...] = static(default=(128, 128), doc="units of the hidden layers", at_least=1)
    activation: str = static(default="relu", doc="activation function of the hidden layers", choices=tuple(ACTIVATIONS))
    layer_norm: bool = static(default=True, doc="normalize each hidden layer")
    rnn: str = static(default="none", doc="type of the recurrent layer", choices=("none", *RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)
    learning_rate: float = number(default=2.5e-4, doc="learning rate of rectified Adam", above=0)
    learning_rate_schedule: Schedule = schedule("linear")
    num_epochs: int = static(default=4, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=16, doc="gradient steps per pass", at_least=1)
    q_lambda: float = number(default=0.65, doc="lambda of Q(lambda)", at_least=0, at_most=1)
    max_grad_norm: float = number(default=10.0, doc="global norm that gradients are clipped to", above=0)
    epsilon_start: float = number(default=1.0, doc="initial probability of a random action", at_least=0, at_most=1)
    epsilon_end: float = number(default=0.05, doc="final probability of a random action", at_least=0, at_most=1)
    exploration_fraction: float = number(
        default=0.2, doc="fraction of total_timesteps over which epsilon falls", above=0, at_most=1
    )

    @property
    def samples_per_gradient(self) -> int:
        """Environment steps in a minibatch."""
        return self.steps_per_update // self.num_minibatches


class PQNAgent(NamedTuple):
    """The state of a PQN agent."""

    params: PyTree
    opt_state: PyTree
    num_updates: Array  # i32[], so far; drives every schedule


class QBatch(NamedTuple):
    """The loss's inputs for each step of a rollout, [T, B, ...], or of a minibatch."""

    observation: PyTree
    action: Array  # i32
    target: Array  # f32
    done: Array  # bool
    mask: Array | None  # bool, which samples count; None: all


def pqn(
    spec: EnvironmentSpec,
    config: PQNConfig,
    *,
    optimizer: Optimizer = radam_by_plan,
    network: Module | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return PQN; with `config.rnn` its Q function is recurrent and minibatches consist of complete sequences.

        loss = (Q(s_t, a_t) - G_t)^2 / 2,  G the Q(lambda) return

    Args:
      spec: the environment's spaces; actions are discrete.
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; rectified Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the head; by
        default one that fits the observations.
      exploration: by default epsilon-greedy, with the settings of the config.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    validate(config, "pqn")
    recurrent, size = config.rnn != "none", num_actions(spec, "pqn")
    check_minibatches(config, recurrent, "pqn")
    base = recurrent_encoder(spec.observation_space, config, config.rnn, config.rnn_size, network)
    head = dense(size, 1.0, initializer=config.initializer)
    optimizer_at = optimizer_of(config, config.num_epochs * config.num_minibatches, optimizer)
    explore_by = exploration or epsilon_greedy(config)

    def init(key: Key) -> PQNAgent:
        key_body, key_head = jax.random.split(key)
        params = {"body": base.init(key_body), "head": init_module(head, key_head, jnp.zeros(base.size))}
        opt_state = optimizer_at(jnp.int32(0)).init(params)
        return PQNAgent(params=params, opt_state=opt_state, num_updates=jnp.int32(0))

    def q_values(params: PyTree, features: Array, observation: PyTree) -> Array:
        return mask_illegal(apply(head, params["head"], features), action_mask(observation))

    def act(agent: PQNAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        features, carry = base.step(agent.params["body"], carry, observation)
        q = q_values(agent.params, features, observation)
        choose = explore_by if explore else greedy
        num_steps = environment_steps(config, agent.num_updates)
        return choose(key, q, action_mask(observation), num_steps), carry, ()

    def update(agent: PQNAgent, key: Key, rollout: Rollout) -> tuple[PQNAgent, Metrics]:
        batch = QBatch(
            observation=rollout.observation,
            action=rollout.action,
            target=targets(agent.params, rollout),
            done=rollout.done,
            mask=rollout.mask,
        )
        params, opt_state, metrics = minibatch_epochs(
            loss,
            optimizer=optimizer_at(agent.num_updates),
            params=agent.params,
            opt_state=agent.opt_state,
            batch=batch,
            carry=rollout.carry,
            key=key,
            config=config,
            sequences=recurrent,
        )
        num_updates = increment(agent.num_updates)
        return PQNAgent(params=params, opt_state=opt_state, num_updates=num_updates), metrics

    def targets(params: PyTree, rollout: Rollout) -> Array:
        _, after = base.unroll(params["body"], rollout.carry, rollout.observation, rollout.done)
        features, _ = base.step(params["body"], after, rollout.next_observation)
        next_value = jnp.max(q_values(params, features, rollout.next_observation), axis=-1)
        return lambda_returns(
            rollout.reward,
            next_value,
            rollout.terminated,
            rollout.done,
            discount=config.discount,
            trace_lambda=config.q_lambda,
        )

    def loss(params: PyTree, batch: QBatch, carry: PyTree) -> tuple[Array, Metrics]:
        features, _ = base.unroll(params["body"], carry, batch.observation, batch.done)
        q = at_action(q_values(params, features, batch.observation), batch.action)
        mean = 0.5 * masked.mean((q - batch.target) ** 2, batch.mask)
        return mean, {"loss": mean, "q_value": masked.mean(q, batch.mask)}

    return Algorithm(init=init, initial_carry=base.initial_carry, act=act, update=update)
