"""VDN and QMIX: Q-learning of a team from replay. `purerl train qmix Spread`.

Each agent acts by Q(its observation, its action); the agents of a policy share this function. The team's Q is learned:
VDN adds the agents' values; QMIX mixes them by a network that is monotone in each of them and whose weights depend on
the environment's global state. So the agents' best actions are together the team's best. An agent that left the game
counts nowhere: its value is 0, in the target too, and the team's reward is the mean of those that are there.
With `rnn` each agent has a recurrent state, and learning is from replayed sequences of whole rollouts.
Source: Sunehag et al. (2018), arXiv:1706.05296; Rashid et al. (2018), arXiv:1803.11485.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.exploration import epsilon_greedy, greedy
from purerl.algo_parts.off_policy import (
    OffPolicyAgent,
    OffPolicyConfig,
    learn_from_replay,
    new_agent,
    periodic_update,
    uniform_replay,
)
from purerl.algo_parts.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.algo_parts.q_learning import num_actions
from purerl.algo_parts.schedules import environment_steps
from purerl.algo_parts.sequence_learning import (
    after_burn_in,
    sequence_sizes,
    sequence_values,
    successors_held,
    with_successors,
)
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.q_targets import at_action, at_last, windows
from purerl.networks.mixer import Mixer, adding, mixing
from purerl.networks.modules import Module
from purerl.networks.q_networks import q_network, recurrent_q_network
from purerl.networks.torsos import INITIALIZERS, RNNS
from purerl.replay.sequences import Sequences, sequences
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Dict, Stacked
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class VDNConfig(OffPolicyConfig):
    """Settings of VDN."""

    joint: ClassVar[bool] = True  # one sample is a step of all agents of a policy
    num_envs: int = static(default=10, doc="environments stepped in parallel", at_least=1)
    hidden_sizes: tuple[int, ...] = static(default=(120, 84), doc="units of the hidden layers", at_least=1)
    initializer: str = static(default="normal", doc="of dense and convolutional weights", choices=tuple(INITIALIZERS))
    max_grad_norm: float | None = number(
        default=10.0, doc="global norm that gradients are clipped to; none: unclipped", above=0
    )
    target_update_interval: int = number(
        default=50, doc="gradient steps between updates of the target network", at_least=1
    )
    tau: float = number(default=1.0, doc="share of the new parameters in such an update; 1: a copy", above=0, at_most=1)
    double: bool = static(default=True, doc="choose the target's action by the online network")
    dueling: bool = static(default=False, doc="value and advantage streams")
    rnn: str = static(default="none", doc="recurrent state of each agent", choices=("none", *RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)
    burn_in: int = static(default=0, doc="with rnn: steps that renew its state before those trained on", at_least=0)
    sequence_length: int | None = static(
        default=None, doc="with rnn: steps of a sequence that are trained on; none: rollout_length", at_least=1
    )
    epsilon_start: float = number(default=1.0, doc="probability of a random action at first", at_least=0, at_most=1)
    epsilon_end: float = number(default=0.05, doc="probability of a random action in the end", at_least=0, at_most=1)
    exploration_fraction: float = number(
        default=0.5, doc="share of total_timesteps over which it falls", above=0, at_most=1
    )


@pytree
class QMIXConfig(VDNConfig):
    """Settings of QMIX."""

    centralized_critic: ClassVar[bool] = True  # the mixing network sees the environment's global state
    mixing_size: int = static(default=32, doc="units of the mixing network", at_least=1)


def vdn(
    spec: EnvironmentSpec,
    config: VDNConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: Module | None = None,
) -> Algorithm:
    r"""Return VDN: Q_team(s, a) = sum_i Q(o_i, a_i), over the agents that are in the game.

    Args:
      spec: a team's spaces; `multi_agent` gives them: actions `Stacked` over its agents, an observation of "agents",
        likewise, and, where the environment has them, "global_state" and "active", bool[n].
      config: the settings.
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation of an agent [N, ...]) -> features f32[N, n] below the head, of flax linen or NNX.

    Raises:
      InputError: if there is no team, or the actions are not discrete.
    """
    return _team(spec, config, optimizer, network, adding(), what="vdn")


def qmix(
    spec: EnvironmentSpec,
    config: QMIXConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: Module | None = None,
) -> Algorithm:
    r"""Return QMIX: Q_team = |W2(s)| elu(|W1(s)| (Q_1, .., Q_n) + b1(s)) + b2(s), s the global state.

    The value of an agent that left is 0 in it.

    Args and Raises as for `vdn`; also if the environment offers no global state.
    """
    seen, actions = _team_spaces(spec, "qmix")
    if "global_state" not in seen:
        raise InputError("qmix: mixes by the environment's global state, and this one offers none; vdn needs none")
    mixer = mixing(seen["global_state"], actions.n, config.mixing_size, config.initializer)
    return _team(spec, config, optimizer, network, mixer, what="qmix")


def _team_spaces(spec: EnvironmentSpec, what: str) -> tuple[Mapping[str, Any], Stacked]:
    """Return the spaces of the parts of a team's observation, and that of its actions."""
    if not isinstance(spec.action_space, Stacked) or not isinstance(spec.observation_space, Dict):
        raise InputError(f"{what}: learns the value of a team; this environment has no groups of agents")
    return spec.observation_space.spaces, spec.action_space


class TeamSteps(NamedTuple):
    """What M steps of a team are learned from."""

    values: Array  # f32[M, n], Q of the actions taken
    next_values: Array  # f32[M, n], of the target network for the successor's best actions
    observation: PyTree  # [M, ...]
    next_observation: PyTree  # [M, ...]
    target: Callable[[Array], Array]  # the successor's value of the team f32[M] -> what it is to learn, f32[M]
    weight: Array  # f32[M]


class TeamNetwork(NamedTuple):
    """The Q function that the agents share, with or without a recurrent state, and the replay it learns from."""

    init: Callable[[Key], PyTree]
    initial_carry: Callable[[int], PyTree]  # num_envs -> [B, n, ...]
    step: Callable[[PyTree, PyTree, PyTree], tuple[Array, PyTree]]
    # (params, carry [B, n, ...], observations of agents [B, n, ...]) -> (q f32[B, n, num_actions], carry)
    learn: Callable[[PyTree, PyTree, Any], TeamSteps]  # (params, target_params, what the replay drew) -> its steps
    replay: Replay


def _team(
    spec: EnvironmentSpec,
    config: VDNConfig,
    optimizer: Optimizer,
    torso: Module | None,
    mixer: Mixer,
    *,
    what: str,
) -> Algorithm:
    validate(config, what)
    seen, actions = _team_spaces(spec, what)
    size = num_actions(EnvironmentSpec(seen["agents"].space, actions.space), what)
    make = _feedforward if config.rnn == "none" else _recurrent
    network = make(spec, config, what, seen["agents"], size, torso)
    explore_by = epsilon_greedy(config)
    descent = optimizer_of(config, config.num_gradient_steps, optimizer)

    def init(key: Key) -> OffPolicyAgent:
        key_network, key_mixer = jax.random.split(key)
        params = {"network": network.init(key_network), "mixer": mixer.init(key_mixer)}
        return new_agent(params, params, descent(jnp.int32(0)).init(params), network.replay)

    def team_value(params: PyTree, values: Array, observation: PyTree) -> Array:
        """Return the team's value f32[M] from those of its agents f32[M, n]."""
        if "active" in observation:
            values = jnp.where(observation["active"], values, 0.0)
        return mixer.apply(params["mixer"], values, observation)

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        q, carry = network.step(agent.params["network"], carry, observation["agents"])
        flat = lambda x: x.reshape(-1, x.shape[-1])
        mask = action_mask(observation["agents"])
        choose: Any = explore_by if explore else greedy
        action = choose(
            key, flat(q), None if mask is None else flat(mask), environment_steps(config, agent.num_updates)
        )
        return action.reshape(q.shape[:-1]), carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, network.replay, gradient_step, config)

    def gradient_step(agent: OffPolicyAgent, batch: Any, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        (mean, (error, metrics)), gradient = jax.value_and_grad(loss, has_aux=True)(
            agent.params, agent.target_params, batch
        )
        params, opt_state = apply_gradients(descent(agent.num_updates), gradient, agent.opt_state, agent.params)
        target_params = periodic_update(
            agent.target_params, params, agent.num_gradient_steps, config.target_update_interval, config.tau
        )
        agent = agent._replace(params=params, target_params=target_params, opt_state=opt_state)
        return agent, error, metrics | {"loss": mean}

    def loss(params: PyTree, target_params: PyTree, batch: Any) -> tuple[Array, tuple[Array, Metrics]]:
        steps = network.learn(params["network"], target_params["network"], batch)
        q = team_value(params, steps.values, steps.observation)
        next_value = team_value(target_params, steps.next_values, steps.next_observation)
        td_error = q - jax.lax.stop_gradient(steps.target(next_value))
        error = jnp.abs(td_error)
        metrics = {"q_value": jnp.mean(q), "td_error": jnp.mean(error)}
        return 0.5 * jnp.mean(steps.weight * td_error**2), (error, metrics)

    return Algorithm(init=init, initial_carry=network.initial_carry, act=act, update=update)


def _feedforward(
    spec: EnvironmentSpec, config: VDNConfig, what: str, agents: Stacked, size: int, torso: Module | None
) -> TeamNetwork:
    """Return Q(o_i, .) of what an agent sees now, learned from single transitions."""
    if config.burn_in or config.sequence_length:
        raise InputError(f"{what}: burn_in and sequence_length are settings of a recurrent network: choose rnn, too")
    network = q_network(agents.space, size, config, dueling=config.dueling, network=torso)

    def step(params: PyTree, carry: PyTree, seen: PyTree) -> tuple[Array, PyTree]:
        return mask_illegal(network.apply(params, seen, None), action_mask(seen)), carry

    def learn(params: PyTree, target_params: PyTree, batch: Transitions) -> TeamSteps:
        q = lambda params, observation: step(params, (), observation["agents"])[0]
        next_q = q(target_params, batch.next_observation)
        selector = q(params, batch.next_observation) if config.double else next_q
        return TeamSteps(
            values=at_action(q(params, batch.observation), batch.action),
            next_values=at_action(next_q, jnp.argmax(selector, axis=-1)),
            observation=batch.observation,
            next_observation=batch.next_observation,
            target=lambda next_value: batch.reward + batch.discount * next_value,
            weight=batch.weight,
        )

    replay = uniform_replay(spec, config)
    no_carry = lambda num_envs: ()
    return TeamNetwork(init=network.init, initial_carry=no_carry, step=step, learn=learn, replay=replay)


def _recurrent(
    spec: EnvironmentSpec, config: VDNConfig, what: str, agents: Stacked, size: int, torso: Module | None
) -> TeamNetwork:
    """Return Q of what an agent has seen so far, learned from sequences that are drawn uniformly."""
    n = agents.n
    network = recurrent_q_network(agents.space, size, config, config.rnn, config.rnn_size, config.dueling, torso)
    apart = lambda tree: jax.tree.map(lambda x: x.reshape(-1, n, *x.shape[1:]), tree)
    flat = lambda tree, axis: jax.tree.map(lambda x: x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :]), tree)
    initial_carry = lambda num_envs: apart(network.initial_carry(num_envs * n))
    sizes = sequence_sizes(config, config.burn_in, config.sequence_length or config.rollout_length, what)
    carry = jax.eval_shape(lambda: initial_carry(config.num_envs))
    held = sequences(spec, sizes, carry, config.batch_size, exponent=0.0, correction=0.0)

    def add(state: Any, rollout: Rollout) -> Any:
        every = {"td_error": jnp.zeros_like(rollout.reward), "known": jnp.ones_like(rollout.terminated)}
        return held.add(state, rollout._replace(extras=every))

    def step(params: PyTree, carry: PyTree, seen: PyTree) -> tuple[Array, PyTree]:
        q, carry = network.step(params, flat(carry, 0), flat(seen, 0))
        return apart(q), apart(carry)

    def learn(params: PyTree, target_params: PyTree, batch: Sequences) -> TeamSteps:
        late, known = after_burn_in(batch, config.burn_in), successors_held(batch, config.burn_in)
        by_agent, length = _of_agents(batch, n, flat), late.reward.shape[0]
        of_team = lambda x: x.reshape(length, -1, n, *x.shape[2:])
        values, following = sequence_values(network, params, by_agent, config.burn_in)
        _, next_q = sequence_values(network, target_params, by_agent, config.burn_in)
        best = jnp.argmax(following if config.double else next_q, axis=-1)
        window = windows(late.reward, late.terminated, late.terminated | late.truncated, config.discount, config.n_step)
        team = lambda seen: {name: part for name, part in seen.items() if name != "agents"}
        after = lambda along, successor: with_successors(along, successor, batch.follows)
        steps = lambda tree: jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)

        def target(next_value: Array) -> Array:
            later = at_last(next_value.reshape(late.reward.shape), window.last)
            return (window.reward + window.discount * later).reshape(-1)

        return TeamSteps(
            values=steps(at_action(of_team(values), late.action)),
            next_values=steps(of_team(at_action(next_q, best))),
            observation=steps(team(late.observation)),
            next_observation=steps(jax.tree.map(after, team(late.observation), team(batch.successor))),
            target=target,
            weight=jnp.where(late.mask & at_last(known, window.last), batch.weight, 0.0).reshape(-1),
        )

    keep = lambda state, batch, error: state
    replay = held._replace(add=add, update=keep)
    return TeamNetwork(init=network.init, initial_carry=initial_carry, step=step, learn=learn, replay=replay)


def _of_agents(batch: Sequences, n: int, flat: Callable[[PyTree, int], PyTree]) -> Sequences:
    """Return a team's sequences as one sequence of each agent, [.., N x n, ..]."""
    each = lambda x: jnp.repeat(x, n, axis=-1)
    return batch._replace(
        observation=flat(batch.observation["agents"], 1),
        action=flat(batch.action, 1),
        reward=each(batch.reward),
        terminated=each(batch.terminated),
        truncated=each(batch.truncated),
        mask=each(batch.mask),
        successor=flat(batch.successor["agents"], 1),
        follows=each(batch.follows),
        carry=flat(batch.carry, 0),
        weight=each(batch.weight),
        start=each(batch.start),
    )
