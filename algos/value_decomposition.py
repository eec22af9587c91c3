"""VDN and QMIX: Q-learning of a team from replay, whose value is made of its agents'. `purerl train qmix Spread`.

Each agent chooses by a Q function of its own observation, one for all agents of the policy. What is learned is the
team's: VDN adds the agents' values, QMIX mixes them by a network that never falls in any of them, whose weights depend
on the environment's global state. So the agents' best actions are together the team's.
Source: Sunehag et al. (2018), arXiv:1706.05296; Rashid et al. (2018), arXiv:1803.11485.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from purerl.algo_parts.exploration import greedy
from purerl.algo_parts.off_policy import OffPolicyAgent, begin_agent, learner, move_towards, step_size, uniform_replay
from purerl.algo_parts.optimizers import adam, descend
from purerl.algo_parts.q_learning import QConfig, epsilon_greedy, network_for
from purerl.errors import InputError
from purerl.networks.torsos import apply, dense, mask_illegal, private, split_mask
from purerl.networks.torsos import init as init_module
from purerl.replay.uniform import Transitions
from purerl.spaces import Stacked
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, number, pytree, static


@pytree
class VDNConfig(QConfig):
    """Settings of VDN."""

    joint: ClassVar[bool] = True  # one sample is a step of all agents of a policy
    double: bool = static(default=True, doc="choose the target's action by the online network")
    max_grad_norm: float | None = number(
        default=10.0, doc="global norm that gradients are clipped to; none: unclipped", above=0
    )


@pytree
class QMIXConfig(VDNConfig):
    """Settings of QMIX."""

    centralized_critic: bool = static(default=True, doc="mix by the environment's global state")
    mixing_size: int = static(default=32, doc="units of the mixing network", at_least=1)


class Mixer(NamedTuple):
    """How the values of agents become the team's."""

    init: Callable[[Key], PyTree]
    apply: Callable[[PyTree, Array, PyTree], Array]  # (params, f32[N, n], observation [N, n, ...]) -> f32[N]


def vdn(spec: EnvironmentSpec, config: VDNConfig) -> Algorithm:
    r"""Return VDN: Q_team(s, a) = sum_i Q(o_i, a_i).

    Args:
      spec: a team's spaces, `Stacked` over its agents; `multi_agent` gives them.
      config: the settings.

    Raises:
      InputError: if there is no team, or the actions are not discrete.
    """
    return _team(
        spec, config, "vdn", Mixer(lambda key: {}, lambda params, values, observation: jnp.sum(values, axis=-1))
    )


def qmix(spec: EnvironmentSpec, config: QMIXConfig) -> Algorithm:
    r"""Return QMIX: Q_team = |W2(s)| elu(|W1(s)| (Q_1, .., Q_n) + b1(s)) + b2(s), s the global state.

    Args and Raises as for `vdn`; also if the environment offers no global state.
    """
    _hold_to_team(spec, "qmix")
    return _team(spec, config, "qmix", mixer(spec, config))


def mixer(spec: EnvironmentSpec, config: QMIXConfig) -> Mixer:
    """Return QMIX's mixing network for a team's spaces.

    Raises:
      InputError: if the environment offers no global state.
    """
    assert isinstance(spec.observation_space, Stacked)
    space, n = spec.observation_space.space, spec.observation_space.n
    if private(space) is space:
        raise InputError("qmix: mixes by the environment's global state, and this one offers none; vdn needs none")
    width = space.spaces["global_state"].size
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
        state = observation["global_state"][:, 0].reshape(values.shape[0], -1).astype(jnp.float32)
        part = lambda name, x: apply(layers[name], params[name], x)
        first = jnp.abs(part("w1", state)).reshape(-1, n, config.mixing_size)
        hidden = jax.nn.elu(jnp.sum(values[..., None] * first, axis=1) + part("b1", state))
        shift = part("b2_out", jax.nn.relu(part("b2", state)))[..., 0]
        return jnp.sum(hidden * jnp.abs(part("w2", state)), axis=-1) + shift

    return Mixer(init, mix)


def _hold_to_team(spec: EnvironmentSpec, what: str) -> None:
    if not isinstance(spec.action_space, Stacked) or not isinstance(spec.observation_space, Stacked):
        raise InputError(f"{what}: learns the value of a team; this environment has no groups of agents")


def _team(spec: EnvironmentSpec, config: VDNConfig, what: str, mixer: Mixer) -> Algorithm:
    _hold_to_team(spec, what)
    assert isinstance(spec.action_space, Stacked) and isinstance(spec.observation_space, Stacked)
    own = EnvironmentSpec(private(spec.observation_space.space), spec.action_space.space)
    network = network_for(own, config, what, None)
    memories = uniform_replay(spec, config)
    optimizer, explore_by = adam(step_size(config), config.max_grad_norm), epsilon_greedy(config)

    def init(key: Key) -> OffPolicyAgent:
        key_network, key_mixer = jax.random.split(key)
        params = {"network": network.init(key_network), "mixer": mixer.init(key_mixer)}
        return begin_agent(params, params, optimizer.init(params), memories)

    def values_of(params: PyTree, observation: PyTree) -> Array:
        seen = private(observation)
        return mask_illegal(network.apply(params["network"], seen, None), split_mask(seen)[1])

    def act(agent: OffPolicyAgent, buffer: PyTree, key: Key, observation: PyTree, explore: bool):
        q = values_of(agent.params, observation)
        flat = lambda x: x.reshape(-1, x.shape[-1])
        mask = split_mask(private(observation))[1]
        choose: Any = explore_by if explore else greedy
        action = choose(key, flat(q), None if mask is None else flat(mask), agent.num_steps)
        return action.reshape(q.shape[:-1]), buffer, ()

    def loss(params: PyTree, target_params: PyTree, batch: Transitions) -> tuple[Array, tuple[Array, Metrics]]:
        pick = lambda q, action: jnp.sum(jnp.where(jnp.arange(q.shape[-1]) == action[..., None], q, 0.0), axis=-1)
        taken = mixer.apply(
            params["mixer"], pick(values_of(params, batch.observation), batch.action), batch.observation
        )
        following = values_of(target_params, batch.next_observation)
        judge = values_of(params, batch.next_observation) if config.double else following
        best = pick(following, jnp.argmax(judge, axis=-1))
        value = mixer.apply(target_params["mixer"], best, batch.next_observation)
        error = taken - jax.lax.stop_gradient(batch.reward + batch.discount * value)
        size = jnp.abs(error)
        metrics = {"q_value": jnp.mean(taken), "td_error": jnp.mean(size)}
        return 0.5 * jnp.mean(batch.weight * error**2), (size, metrics)

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        (mean, (size, metrics)), gradient = jax.value_and_grad(loss, has_aux=True)(
            agent.params, agent.target_params, batch
        )
        params, opt_state = descend(optimizer, gradient, agent.opt_state, agent.params)
        due = (agent.num_gradient_steps + 1) % config.target_update_interval == 0
        target = move_towards(agent.target_params, params, jnp.where(due, config.tau, 0.0))
        return agent._replace(params=params, target_params=target, opt_state=opt_state), size, metrics | {"loss": mean}

    return Algorithm(init, lambda num_envs: (), act, learner(config, memories, gradient_step))
