"""An algorithm of your own: REINFORCE with a baseline, in plain flax and optax."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from purerl import Algorithm, Config, EnvironmentSpec, Rollout, number, pytree, static


@pytree
class ReinforceConfig(Config):
    """Settings: flags of `purerl train`, ranges of `purerl sweep`."""

    num_envs: int = static(default=16, doc="environments stepped in parallel", at_least=1)
    learning_rate: float = number(default=2e-3, doc="learning rate of Adam", above=0)


def mlp(num_outputs: int) -> nn.Module:
    """Return a network with two hidden layers."""
    return nn.Sequential([nn.Dense(64), nn.tanh, nn.Dense(64), nn.tanh, nn.Dense(num_outputs)])


def reinforce(spec: EnvironmentSpec, config: ReinforceConfig) -> Algorithm:
    """Return the four functions of the algorithm; the agent is any pytree of arrays."""
    actor, critic = mlp(spec.action_space.n), mlp(1)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(config.learning_rate))
    value_of = lambda params, observation: critic.apply(params["critic"], observation)[..., 0]

    def init(key):
        keys, zeros = jax.random.split(key), spec.observation_space.zeros()
        params = {"actor": actor.init(keys[0], zeros), "critic": critic.init(keys[1], zeros)}
        return {"params": params, "opt_state": optimizer.init(params)}

    def act(agent, carry, key, observation, explore):
        logits = actor.apply(agent["params"]["actor"], observation)
        return (jax.random.categorical(key, logits) if explore else jnp.argmax(logits, -1)), carry, ()

    def update(agent, key, rollout: Rollout):
        next_value = value_of(agent["params"], rollout.next_observation)  # the final observation at an end
        next_value = jnp.where(rollout.terminated, 0.0, next_value)

        def back(later, step):  # G_t = r_t + discount G_t+1; the value stands in where an episode or the rollout ends
            now = step[0] + config.discount * jnp.where(step[2], step[1], later)
            return now, now

        _, returns = jax.lax.scan(back, next_value[-1], (rollout.reward, next_value, rollout.done), reverse=True)

        def loss(params):
            log_probs = jax.nn.log_softmax(actor.apply(params["actor"], rollout.observation))
            log_prob = jnp.take_along_axis(log_probs, rollout.action[..., None], -1)[..., 0]
            error = returns - value_of(params, rollout.observation)
            advantage = jax.lax.stop_gradient(error) / (jnp.std(error) + 1e-8)
            return jnp.mean(optax.huber_loss(error) - log_prob * advantage), {"value_error": jnp.std(error)}

        gradient, metrics = jax.grad(loss, has_aux=True)(agent["params"])  # metrics: columns of metrics.csv
        step, opt_state = optimizer.update(gradient, agent["opt_state"])
        return {"params": optax.apply_updates(agent["params"], step), "opt_state": opt_state}, metrics

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)
