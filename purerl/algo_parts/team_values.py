"""The Q function that the agents of a team share, with or without memory, and the replay it is learned from."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.off_policy import OffPolicyConfig, uniform_replay
from purerl.algo_parts.sequence_learning import (
    after_burn_in,
    sequence_sizes,
    sequence_values,
    successors_held,
    with_successors,
)
from purerl.errors import InputError
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.q_targets import at_action, at_last, windows
from purerl.networks.modules import Module
from purerl.networks.q_networks import q_network, recurrent_q_network
from purerl.networks.torsos import RNNS
from purerl.replay.sequences import Sequences, sequences
from purerl.replay.uniform import Replay, Transitions
from purerl.spaces import Stacked
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout, pytree, static


@pytree
class TeamConfig(OffPolicyConfig):
    """Settings of the network and of its targets."""

    joint: ClassVar[bool] = True  # one sample is a step of all agents of a policy
    double: bool = static(default=True, doc="choose the target's action by the online network")
    dueling: bool = static(default=False, doc="value and advantage streams")
    rnn: str = static(default="none", doc="recurrent state of each agent", choices=("none", *RNNS))
    rnn_size: int = static(default=64, doc="units of the recurrent state", at_least=1)
    burn_in: int = static(default=0, doc="with rnn: steps that renew its state before those trained on", at_least=0)
    sequence_length: int | None = static(
        default=None, doc="with rnn: steps of a sequence that are trained on; none: rollout_length", at_least=1
    )


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


def team_network(
    spec: EnvironmentSpec, config: TeamConfig, agents: Stacked, num_actions: int, torso: Module | None, *, what: str
) -> TeamNetwork:
    """Return the Q function of a team's agents.

    Args:
      spec: the team's spaces.
      config: the settings.
      agents: the space of the agents' observations, `Stacked` over them.
      num_actions: of an agent.
      torso: a module below the head; None: as the config says.
      what: the algorithm, for errors.

    Raises:
      InputError: if sequences are asked for without a recurrent network, or a batch is larger than what is stored when
        learning starts.
    """
    make = _feedforward if config.rnn == "none" else _recurrent
    return make(spec, config, what, agents, num_actions, torso)


def _feedforward(
    spec: EnvironmentSpec, config: TeamConfig, what: str, agents: Stacked, size: int, torso: Module | None
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
    spec: EnvironmentSpec, config: TeamConfig, what: str, agents: Stacked, size: int, torso: Module | None
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
