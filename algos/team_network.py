"""The Q network that a team's agents share, with or without a recurrent state, and its replay."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from purerl.algos.off_policy import OffPolicyConfig, uniform_replay
from purerl.algos.r2d2 import sequence_sizes, sequence_values
from purerl.errors import InputError
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.q_targets import at_action, at_best, at_last, windows, with_successors
from purerl.networks.modules import Module
from purerl.networks.q_networks import q_network
from purerl.networks.recurrent_q_network import QStep, recurrent_q_network
from purerl.networks.torsos import RNNS
from purerl.replay.sequences import Sequences, after_burn_in, sequences, successors_held
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Stacked
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout, pytree, static


@pytree
class TeamConfig(OffPolicyConfig):
    """Settings of the team's network and its targets."""

    joint: ClassVar[bool] = True  # one sample is a step of all agents of a policy
    double: bool = static(default=True, doc="choose the target's action by the online network")
    dueling: bool = static(default=False, doc="value and advantage streams")
    rnn: str = static(default="none", doc="type of the recurrent layer of each agent", choices=("none", *RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)
    burn_in: int = static(
        default=0, doc="with rnn: burn-in steps that refresh its state before the trained steps", at_least=0
    )
    sequence_length: int | None = static(
        default=None, doc="with rnn: trained steps of a sequence; none: rollout_length", at_least=1
    )


class TeamSteps(NamedTuple):
    """M steps of a team of n agents, as the loss needs them."""

    values: Array  # f32[M, n], Q of the actions taken
    next_values: Array  # f32[M, n], of the target network at the best next actions
    observation: PyTree  # [M, ...]
    next_observation: PyTree  # [M, ...]
    target: Callable[[Array], Array]  # next value of the team f32[M] -> the target of its value f32[M]
    weight: Array  # f32[M]


class TeamLearn(Protocol):
    """`TeamNetwork.learn`."""

    def __call__(self, params: PyTree, target_params: PyTree, batch: PyTree, /) -> TeamSteps:
        """Return the steps of a batch from the replay, with the values of both networks."""
        ...


class TeamNetwork(NamedTuple):
    """The shared Q network as pure functions, and its replay."""

    init: Callable[[Key], PyTree]  # key -> params
    initial_carry: Callable[[int], PyTree]  # num_envs -> [B, n, ...]
    step: QStep  # step of all agents: carry and observation are [B, n, ...], Q is f32[B, n, num_actions]
    learn: TeamLearn
    replay: Replay


def team_network(
    spec: EnvironmentSpec, config: TeamConfig, agents: Stacked, num_actions: int, torso: Module | None, *, what: str
) -> TeamNetwork:
    """Return the Q network of a team's agents.

    Args:
      spec: the team's spaces.
      config: the settings.
      agents: the space of the agents' observations, `Stacked` over them.
      num_actions: the number of actions of an agent.
      torso: a module below the head; None: the torso that the config describes.
      what: the algorithm, for errors.

    Raises:
      InputError: if sequences are requested without a recurrent network, or a batch is larger than the replay when
        learning starts.
    """
    if config.rnn != "none":
        return _recurrent(spec, config, agents, num_actions, torso, what=what)
    if config.burn_in or config.sequence_length:
        raise InputError(f"{what}: burn_in and sequence_length are settings of a recurrent network: also set rnn")
    return _feedforward(spec, config, agents, num_actions, torso)


def _feedforward(
    spec: EnvironmentSpec, config: TeamConfig, agents: Stacked, size: int, torso: Module | None
) -> TeamNetwork:
    """Return a feedforward network of the agents' observations, which learns from transitions."""
    network = q_network(agents.space, size, config, dueling=config.dueling, network=torso)

    def step(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Array, PyTree]:
        return mask_illegal(network.apply(params, observation, None), action_mask(observation)), carry

    def learn(params: PyTree, target_params: PyTree, batch: Transitions) -> TeamSteps:
        q = lambda params, observation: step(params, (), observation["agents"])[0]
        next_q = q(target_params, batch.next_observation)
        selector = q(params, batch.next_observation) if config.double else next_q
        return TeamSteps(
            values=at_action(q(params, batch.observation), batch.action),
            next_values=at_best(next_q, selector),
            observation=batch.observation,
            next_observation=batch.next_observation,
            target=lambda next_value: batch.reward + batch.discount * next_value,
            weight=batch.weight,
        )

    replay = uniform_replay(spec, config)
    no_carry = lambda num_envs: ()
    return TeamNetwork(init=network.init, initial_carry=no_carry, step=step, learn=learn, replay=replay)


def _recurrent(
    spec: EnvironmentSpec, config: TeamConfig, agents: Stacked, size: int, torso: Module | None, *, what: str
) -> TeamNetwork:
    """Return a recurrent network, which learns from uniformly sampled sequences."""
    n = agents.n
    network = recurrent_q_network(
        agents.space, size, config, rnn=config.rnn, rnn_size=config.rnn_size, dueling=config.dueling, network=torso
    )
    by_agent = lambda tree: jax.tree.map(lambda x: x.reshape(-1, n, *x.shape[1:]), tree)
    initial_carry = lambda num_envs: by_agent(network.initial_carry(num_envs * n))

    def step(params: PyTree, carry: PyTree, observation: PyTree) -> tuple[Array, PyTree]:
        q, carry = network.step(params, _flat(carry, 0), _flat(observation, 0))
        return by_agent(q), by_agent(carry)

    def learn(params: PyTree, target_params: PyTree, batch: Sequences) -> TeamSteps:
        late, known = after_burn_in(batch, config.burn_in), successors_held(batch, config.burn_in)
        of_agents, length = _of_agents(batch, n), late.reward.shape[0]
        of_team = lambda x: x.reshape(length, -1, n, *x.shape[2:])
        values, online_next_q = sequence_values(network, params, of_agents, config.burn_in)
        _, next_q = sequence_values(network, target_params, of_agents, config.burn_in)
        next_best = at_best(next_q, online_next_q if config.double else next_q)
        window = windows(late.reward, late.terminated, late.terminated | late.truncated, config.discount, config.n_step)
        team = lambda observation: {name: part for name, part in observation.items() if name != "agents"}
        next_of = lambda along, successor: with_successors(along, successor, batch.follows)
        steps = lambda tree: jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), tree)

        def target(next_value: Array) -> Array:
            later = at_last(next_value.reshape(late.reward.shape), window.last)
            return (window.reward + window.discount * later).reshape(-1)

        return TeamSteps(
            values=steps(at_action(of_team(values), late.action)),
            next_values=steps(of_team(next_best)),
            observation=steps(team(late.observation)),
            next_observation=steps(jax.tree.map(next_of, team(late.observation), team(batch.successor))),
            target=target,
            weight=jnp.where(late.mask & at_last(known, window.last), batch.weight, 0.0).reshape(-1),
        )

    sizes = sequence_sizes(config, config.burn_in, config.sequence_length or config.rollout_length, what)
    carry = jax.eval_shape(lambda: initial_carry(config.num_envs))
    replay = _uniform_sequences(sequences(spec, sizes, carry, config.batch_size, exponent=0.0, correction=0.0))
    return TeamNetwork(init=network.init, initial_carry=initial_carry, step=step, learn=learn, replay=replay)


def _uniform_sequences(replay: Replay) -> Replay:
    """Return a replay of sequences without priorities."""

    def add(state: PyTree, rollout: Rollout) -> PyTree:
        known = {"td_error": jnp.zeros_like(rollout.reward), "known": jnp.ones_like(rollout.terminated)}
        return replay.add(state, rollout._replace(extras=known))

    return replay._replace(add=add, update=lambda state, batch, error: state)


def _flat(tree: PyTree, axis: int) -> PyTree:
    """Return a tree with the axes `axis` and `axis` + 1, environments and agents, merged."""
    return jax.tree.map(lambda x: jax.lax.collapse(x, axis, axis + 2), tree)


def _of_agents(batch: Sequences, n: int) -> Sequences:
    """Return a team's sequences as one sequence per agent, [.., N x n, ..]."""
    each = lambda x: jnp.repeat(x, n, axis=-1)
    return batch._replace(
        observation=_flat(batch.observation["agents"], 1),
        action=_flat(batch.action, 1),
        reward=each(batch.reward),
        terminated=each(batch.terminated),
        truncated=each(batch.truncated),
        mask=each(batch.mask),
        successor=_flat(batch.successor["agents"], 1),
        follows=each(batch.follows),
        carry=_flat(batch.carry, 0),
        weight=each(batch.weight),
        start=each(batch.start),
    )
