"""VDN and QMIX: Q-learning of a team from replay. `purerl train qmix Spread`.

Each agent acts by Q(its observation, its action); the agents of a policy share this function. The team's Q is learned:
VDN adds the agents' values; QMIX mixes them by a network that is monotone in each of them and whose weights depend on
the environment's global state. So the agents' best actions are together the team's best. An agent that left the game
counts nowhere: its value is 0, in the target too, and the team's reward is the mean of those that are there.
Source: Sunehag et al. (2018), arXiv:1706.05296; Rashid et al. (2018), arXiv:1803.11485.
"""

from collections.abc import Callable, Mapping
from functools import partial
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
from purerl.algo_parts.optimizers import adam, apply_gradients
from purerl.algo_parts.q_learning import num_actions
from purerl.algo_parts.schedules import environment_steps, learning_rate
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.action_masks import action_mask, mask_illegal
from purerl.functional.q_targets import at_action
from purerl.networks.q_networks import q_network
from purerl.networks.torsos import INITIALIZERS, apply, dense
from purerl.networks.torsos import init as init_module
from purerl.replay.uniform import Transitions
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


class Mixer(NamedTuple):
    """The function from the values of agents to the team's."""

    init: Callable[[Key], PyTree]
    apply: Callable[[PyTree, Array, PyTree], Array]  # (params, f32[N, n], observation of a team [N, ...]) -> f32[N]


def vdn(spec: EnvironmentSpec, config: VDNConfig) -> Algorithm:
    r"""Return VDN: Q_team(s, a) = sum_i Q(o_i, a_i), over the agents that are in the game.

    Args:
      spec: a team's spaces; `multi_agent` gives them: actions `Stacked` over its agents, an observation of "agents",
        likewise, and, where the environment has them, "global_state" and "active", bool[n].
      config: the settings.

    Raises:
      InputError: if there is no team, or the actions are not discrete.
    """
    return _team(
        spec, config, "vdn", Mixer(lambda key: {}, lambda params, values, observation: jnp.sum(values, axis=-1))
    )


def qmix(spec: EnvironmentSpec, config: QMIXConfig) -> Algorithm:
    r"""Return QMIX: Q_team = |W2(s)| elu(|W1(s)| (Q_1, .., Q_n) + b1(s)) + b2(s), s the global state.

    The value of an agent that left is 0 in it.

    Args and Raises as for `vdn`; also if the environment offers no global state.
    """
    _team_spaces(spec, "qmix")
    return _team(spec, config, "qmix", mixer(spec, config))


def mixer(spec: EnvironmentSpec, config: QMIXConfig) -> Mixer:
    """Return QMIX's mixing network for a team's spaces.

    Raises:
      InputError: if the environment offers no global state.
    """
    seen, actions = _team_spaces(spec, "qmix")
    if "global_state" not in seen:
        raise InputError("qmix: mixes by the environment's global state, and this one offers none; vdn needs none")
    width, n = seen["global_state"].size, actions.n
    layer = partial(dense, initializer=config.initializer)
    layers = {
        "w1": layer(n * config.mixing_size, 1.0),
        "b1": layer(config.mixing_size, 1.0),
        "w2": layer(config.mixing_size, 1.0),
        "b2": layer(config.mixing_size, 2**0.5),
        "b2_out": layer(1, 1.0),
    }

    def init(key: Key) -> PyTree:
        sizes = {name: config.mixing_size if name == "b2_out" else width for name in layers}
        keys = jax.random.split(key, len(layers))
        return {
            name: init_module(layers[name], k, jnp.zeros(sizes[name])) for name, k in zip(layers, keys, strict=True)
        }

    def mix(params: PyTree, values: Array, observation: PyTree) -> Array:
        state = observation["global_state"].reshape(values.shape[0], -1).astype(jnp.float32)
        layer = lambda name, x: apply(layers[name], params[name], x)
        w1 = jnp.abs(layer("w1", state)).reshape(-1, n, config.mixing_size)
        hidden = jax.nn.elu(jnp.sum(values[..., None] * w1, axis=1) + layer("b1", state))
        b2 = layer("b2_out", jax.nn.relu(layer("b2", state)))[..., 0]
        return jnp.sum(hidden * jnp.abs(layer("w2", state)), axis=-1) + b2

    return Mixer(init, mix)


def _team_spaces(spec: EnvironmentSpec, what: str) -> tuple[Mapping[str, Any], Stacked]:
    """Return the spaces of the parts of a team's observation, and that of its actions."""
    if not isinstance(spec.action_space, Stacked) or not isinstance(spec.observation_space, Dict):
        raise InputError(f"{what}: learns the value of a team; this environment has no groups of agents")
    return spec.observation_space.spaces, spec.action_space


def _team(spec: EnvironmentSpec, config: VDNConfig, what: str, mixer: Mixer) -> Algorithm:
    validate(config, what)
    seen, actions = _team_spaces(spec, what)
    agent_spec = EnvironmentSpec(seen["agents"].space, actions.space)
    size = num_actions(agent_spec, what)
    network = q_network(agent_spec.observation_space, size, config, dueling=config.dueling)
    buffer = uniform_replay(spec, config)
    explore_by = epsilon_greedy(config)
    optimizer = lambda num_updates: adam(learning_rate(config, num_updates), config.max_grad_norm)

    def init(key: Key) -> OffPolicyAgent:
        key_network, key_mixer = jax.random.split(key)
        params = {"network": network.init(key_network), "mixer": mixer.init(key_mixer)}
        return new_agent(params, params, optimizer(jnp.int32(0)).init(params), buffer)

    def q_values(params: PyTree, observation: PyTree) -> Array:
        seen = observation["agents"]
        return mask_illegal(network.apply(params["network"], seen, None), action_mask(seen))

    def team_value(params: PyTree, values: Array, observation: PyTree) -> Array:
        """Return the team's value f32[N] from those of its agents f32[N, n]."""
        if "active" in observation:
            values = jnp.where(observation["active"], values, 0.0)
        return mixer.apply(params["mixer"], values, observation)

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        q = q_values(agent.params, observation)
        flat = lambda x: x.reshape(-1, x.shape[-1])
        mask = action_mask(observation["agents"])
        choose: Any = explore_by if explore else greedy
        action = choose(
            key, flat(q), None if mask is None else flat(mask), environment_steps(config, agent.num_updates)
        )
        return action.reshape(q.shape[:-1]), carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        return learn_from_replay(agent, key, rollout, buffer, gradient_step, config)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        (mean, (error, metrics)), gradient = jax.value_and_grad(loss, has_aux=True)(
            agent.params, agent.target_params, batch
        )
        params, opt_state = apply_gradients(optimizer(agent.num_updates), gradient, agent.opt_state, agent.params)
        target_params = periodic_update(
            agent.target_params, params, agent.num_gradient_steps, config.target_update_interval, config.tau
        )
        agent = agent._replace(params=params, target_params=target_params, opt_state=opt_state)
        return agent, error, metrics | {"loss": mean}

    def loss(params: PyTree, target_params: PyTree, batch: Transitions) -> tuple[Array, tuple[Array, Metrics]]:
        agent_values = at_action(q_values(params, batch.observation), batch.action)
        q = team_value(params, agent_values, batch.observation)
        next_q = q_values(target_params, batch.next_observation)
        selector = q_values(params, batch.next_observation) if config.double else next_q
        next_values = at_action(next_q, jnp.argmax(selector, axis=-1))
        next_value = team_value(target_params, next_values, batch.next_observation)
        td_error = q - jax.lax.stop_gradient(batch.reward + batch.discount * next_value)
        error = jnp.abs(td_error)
        metrics = {"q_value": jnp.mean(q), "td_error": jnp.mean(error)}
        return 0.5 * jnp.mean(batch.weight * td_error**2), (error, metrics)

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)
