"""CrossQ: soft actor-critic with batch normalization instead of target networks. `purerl train crossq Pendulum-v1`.

The critics see a step and its next state in one batch, so that both are normalized in the same way. Then they learn
quickly without a target network, and one gradient step per environment step is enough.
Source: Bhatt et al. (2024), arXiv:1902.05605. Here the policy has no normalization.
"""

from functools import partial

import jax
import jax.numpy as jnp

from purerl.algos.off_policy import OffPolicyAgent, new_agent, new_statistics, uniform_replay
from purerl.algos.redq import DelayedConfig, actor_part, actor_step
from purerl.algos.sac import SquashedActorCritic, new_params, soft_agent
from purerl.fields import validate
from purerl.functional.q_targets import squared_errors
from purerl.networks.batch_norm import normed_critics
from purerl.networks.critics import Critics
from purerl.networks.modules import Module
from purerl.networks.squashed_policy import squashed_policy
from purerl.optim.optimizers import Optimizer, adam_by_plan, apply_gradients, optimizer_of
from purerl.replay.uniform import Replay, Transitions
from purerl.types import Algorithm, Array, EnvironmentSpec, Key, Metrics, PyTree, number, pytree, static


@pytree
class CrossQConfig(DelayedConfig):
    """Settings of CrossQ."""

    critic_hidden_sizes: tuple[int, ...] = static(
        default=(1024, 1024), doc="units of the critics' hidden layers (paper: 2048,2048; SBX: 1024,1024)", at_least=1
    )
    learning_rate: float = number(default=1e-3, doc="learning rate of Adam, for all networks", above=0)
    learning_starts: int = static(
        default=1_000, doc="steps with random actions before the first gradient step (paper's code: 5,000)", at_least=1
    )
    tau: float = number(default=0.01, doc="weight of a batch in the running statistics", above=0, at_most=1)
    renorm_warmup: int = number(
        default=100_000,
        doc="gradient steps before renormalization (paper's code: 100,000); reduce it for shorter runs",
        at_least=0,
    )
    policy_period: int = number(
        default=3, doc="gradient steps of the critics per gradient step of the policy", at_least=1
    )


def crossq(
    spec: EnvironmentSpec,
    config: CrossQConfig,
    *,
    optimizer: Optimizer = partial(adam_by_plan, eps=1e-8, b1=0.5),
    network: Module | None = None,
    replay: Replay | None = None,
) -> Algorithm:
    r"""Return CrossQ.

        critics: (Q_i(s, a) - sg[scale r + discount (min_j Q_j(s', a') - temperature log pi(a'|s'))])^2 / 2,
                 Q(s, a) and Q(s', a') of one batch
        policy:  -E(min_i Q_i(s, a) - temperature log pi(a|s)), every policy_period-th step, by running statistics
        temperature: log(temperature) (entropy - target_entropy), with the policy

    The agent's `target_params` are the running statistics. With `n_step` above 1, r is only the sum of n rewards.

    Args:
      spec: the environment's spaces, with a Box of actions with finite bounds.
      config: the settings.
      optimizer: for actor and critics each: an optax optimizer such as `optax.lion`, or a function `GradientPlan` ->
        optax transformation; Adam by default.
      network: a Flax module (Linen or NNX) that maps observations [N, ...] to features f32[N, n], below the policy's
        head.
      replay: a replay; by default a uniform one.

    Raises:
      InputError: if a setting is out of range or the actions are not such a box.
    """
    validate(config, "crossq")
    policy = squashed_policy(spec, config, network, "crossq")
    normed = normed_critics(
        spec.observation_space, policy.box.size, config, hidden_sizes=config.critic_hidden_sizes, num=2
    )
    smallest = lambda outputs: jnp.min(outputs, axis=0)
    net = SquashedActorCritic(
        policy=policy,
        critics=Critics(init=normed.init, apply=lambda both, *inputs: normed.apply(*both, *inputs)),
        next_values=lambda outputs, key: smallest(outputs)[:, None],
        compare=squared_errors,
        value=smallest,
    )  # whose critics' parameters are (params, running statistics)
    buffer = replay or uniform_replay(spec, config)
    optimizer_at = optimizer_of(config, config.num_gradient_steps, optimizer)  # for actor and critics each

    def init(key: Key) -> OffPolicyAgent:
        params, start = new_params(net, config, key), optimizer_at(jnp.int32(0)).init
        networks, statistics = params["critics"]
        opt_state = {"actor": start(actor_part(params)), "critics": start(networks)}
        return new_agent(params | {"critics": networks}, statistics, opt_state, buffer, new_statistics(spec, config))

    def gradient_step(agent: OffPolicyAgent, batch: Transitions, key: Key) -> tuple[OffPolicyAgent, Array, Metrics]:
        optimizer, (key_critics, key_actor) = optimizer_at(agent.num_updates), jax.random.split(key)
        (loss, (error, statistics)), gradient = jax.value_and_grad(critic_loss, has_aux=True)(
            agent.params["critics"], agent.params, agent.target_params, batch, key_critics
        )
        networks, critics_opt = apply_gradients(
            optimizer, gradient, agent.opt_state["critics"], agent.params["critics"]
        )
        agent = agent._replace(
            params=agent.params | {"critics": networks},
            target_params=statistics,
            opt_state=agent.opt_state | {"critics": critics_opt},
        )
        critics = (networks, statistics)
        agent, metrics = actor_step(agent, critics, batch, key_actor, net=net, config=config, optimizer=optimizer)
        return agent, error, {"critic_loss": loss} | metrics

    def critic_loss(params: PyTree, agent_params: PyTree, statistics: PyTree, batch: Transitions, key: Key):
        next_policy = policy.distribution(agent_params["actor"], batch.next_observation)
        sample = next_policy.sample(seed=key)
        both = lambda first, second: jax.tree.map(lambda x, y: jnp.concatenate([x, y]), first, second)
        observation = both(batch.observation, batch.next_observation)
        action = both(policy.box.to_unit(batch.action), jnp.tanh(sample))
        counted = both(batch.weight > 0, batch.weight > 0)
        values, statistics = normed.train(
            params,
            statistics,
            observation,
            action,
            step=config.tau,
            warmup=config.renorm_warmup,
            counted=counted,
        )
        value, next_value = jnp.split(values, 2, axis=1)
        soft = smallest(next_value) - jnp.exp(agent_params["log_temperature"]) * next_policy.log_prob(sample)
        target = jax.lax.stop_gradient(config.reward_scale * batch.reward + batch.discount * soft)
        losses, error = squared_errors(value, target[:, None])
        return jnp.mean(batch.weight * losses), (error, statistics)

    return soft_agent(spec, config, net, init=init, gradient_step=gradient_step, replay=buffer)
