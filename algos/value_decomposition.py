"""VDN and QMIX: Q-learning of a team from replay. `purerl train qmix Spread`.

Each agent acts by Q(its observation, its action); the agents of a policy share this function. The team's Q is learned:
VDN adds the agents' values; QMIX mixes them by a network that is monotone in each of them and whose weights depend on
the environment's global state. So the agents' best actions together are the team's best action. An agent that left the
game does not count: its value is 0, even in the target, and the team's reward is the mean over the other agents.
With `rnn` each agent has a recurrent state, and the network learns from replayed sequences of complete rollouts.
Source: Sunehag et al. (2018), arXiv:1706.05296; Rashid et al. (2018), arXiv:1803.11485.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from purerl.algos.dqn import q_gradient_step
from purerl.algos.off_policy import OffPolicyAgent, learn_from_replay, new_agent
from purerl.algos.team_network import TeamConfig, team_network
from purerl.errors import InputError
from purerl.fields import validate
from purerl.functional.action_masks import action_mask
from purerl.functional.exploration import epsilon_greedy, greedy
from purerl.networks.initializers import INITIALIZERS
from purerl.networks.mixer import Mixer, adding, mixing
from purerl.networks.modules import Module
from purerl.networks.q_networks import num_actions
from purerl.optim.optimizers import Optimizer, adam_by_plan, optimizer_of
from purerl.optim.schedules import environment_steps
from purerl.spaces import Dict, Stacked
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, Rollout, number, pytree, static


@pytree
class VDNConfig(TeamConfig):
    """Settings of VDN."""

    num_envs: int = static(default=10, doc="environments stepped in parallel", at_least=1)
    hidden_sizes: tuple[int, ...] = static(default=(120, 84), doc="units of the hidden layers", at_least=1)
    initializer: str = static(
        default="normal", doc="weight initializer for dense and convolutional layers", choices=tuple(INITIALIZERS)
    )
    max_grad_norm: float | None = number(
        default=10.0, doc="global norm that gradients are clipped to; none: unclipped", above=0
    )
    target_update_interval: int = number(
        default=50, doc="gradient steps between updates of the target network", at_least=1
    )
    tau: float = number(
        default=1.0, doc="Polyak coefficient of the target update; 1 copies the network", above=0, at_most=1
    )
    epsilon_start: float = number(default=1.0, doc="initial probability of a random action", at_least=0, at_most=1)
    epsilon_end: float = number(default=0.05, doc="final probability of a random action", at_least=0, at_most=1)
    exploration_fraction: float = number(
        default=0.5, doc="fraction of total_timesteps over which epsilon falls", above=0, at_most=1
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
      spec: a team's spaces, as `multi_agent` makes them: actions `Stacked` over its agents, and an observation with
        "agents", `Stacked` too, and, if the environment has them, "global_state" and "active", bool[n].
      config: the settings.
      optimizer: an optax optimizer such as `optax.lion`, applied to clipped gradients, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations of agents [N, ...] to features f32[N, n], below the
        head.

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
    r"""Return QMIX: Q_team = |W2(s)| elu(|W1(s)| (Q_1, .., Q_n) + b1(s)) + b2(s), with s the global state.

    The value of an agent that left is 0 in it.

    Args and Raises as for `vdn`; also if the environment offers no global state.
    """
    parts, actions = _team_spaces(spec, "qmix")
    if "global_state" not in parts:
        raise InputError("qmix: needs the environment's global state, and this one has none; vdn needs none")
    mixer = mixing(parts["global_state"], actions.n, config.mixing_size, config.initializer)
    return _team(spec, config, optimizer, network, mixer, what="qmix")


def _team_spaces(spec: EnvironmentSpec, what: str) -> tuple[Mapping[str, Any], Stacked]:
    """Return (the spaces in a team's observation, its action space)."""
    if not isinstance(spec.action_space, Stacked) or not isinstance(spec.observation_space, Dict):
        raise InputError(f"{what}: learns the value of a team; this environment has no groups of agents")
    return spec.observation_space.spaces, spec.action_space


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
    parts, actions = _team_spaces(spec, what)
    size = num_actions(EnvironmentSpec(parts["agents"].space, actions.space), what)
    network = team_network(spec, config, parts["agents"], size, torso, what=what)
    explore_by = epsilon_greedy(config)
    optimizer_at = optimizer_of(config, config.num_gradient_steps, optimizer)

    def init(key: Key) -> OffPolicyAgent:
        key_network, key_mixer = jax.random.split(key)
        params = {"network": network.init(key_network), "mixer": mixer.init(key_mixer)}
        return new_agent(params, params, optimizer_at(jnp.int32(0)).init(params), network.replay)

    def team_value(params: PyTree, values: Array, observation: PyTree) -> Array:
        """Return the team's value f32[M] from its agents' values f32[M, n]."""
        if "active" in observation:
            values = jnp.where(observation["active"], values, 0.0)
        return mixer.apply(params["mixer"], values, observation)

    def act(agent: OffPolicyAgent, carry: PyTree, key: Key, observation: PyTree, explore: bool):
        q, carry = network.step(agent.params["network"], carry, observation["agents"])
        flat = lambda x: x.reshape(-1, x.shape[-1])
        mask = action_mask(observation["agents"])
        choose = explore_by if explore else greedy
        action = choose(
            key, flat(q), None if mask is None else flat(mask), environment_steps(config, agent.num_updates)
        )
        return action.reshape(q.shape[:-1]), carry, ()

    def update(agent: OffPolicyAgent, key: Key, rollout: Rollout) -> tuple[OffPolicyAgent, Metrics]:
        gradient_step = q_gradient_step(loss, optimizer_at, config.target_update_interval, config.tau)
        return learn_from_replay(agent, key, rollout, replay=network.replay, gradient_step=gradient_step, config=config)

    def loss(params: PyTree, target_params: PyTree, batch: PyTree, _: Key) -> tuple[Array, tuple[Array, Metrics]]:
        steps = network.learn(params["network"], target_params["network"], batch)
        q = team_value(params, steps.values, steps.observation)
        next_value = team_value(target_params, steps.next_values, steps.next_observation)
        td_error = q - jax.lax.stop_gradient(steps.target(next_value))
        error = jnp.abs(td_error)
        metrics = {"q_value": jnp.mean(q), "td_error": jnp.mean(error)}
        return 0.5 * jnp.mean(steps.weight * td_error**2), (error, metrics)

    return Algorithm(init=init, initial_carry=network.initial_carry, act=act, update=update)
