"""An algorithm from outside the project: REINFORCE with a linear softmax policy, in optax alone."""

from functools import partial

import jax
import jax.numpy as jnp
import optax

from purerl.types import Algorithm, Config, EnvironmentSpec, number, pytree


@pytree
class ReinforceConfig(Config):
    """Settings of REINFORCE."""

    step_size: float = number(default=0.01, doc="of gradient descent", above=0)


def reinforce(spec: EnvironmentSpec, config: ReinforceConfig, *, scale: float = 1.0) -> Algorithm:
    """Return REINFORCE; `scale` multiplies its logits."""
    size, actions = spec.observation_space.struct.size, spec.action_space.n
    optimizer = optax.sgd(config.step_size)

    def init(key):
        weights = 0.01 * jax.random.normal(key, (size, actions))
        return {"params": weights, "optimizer": optimizer.init(weights)}

    def logits(weights, seen):
        return scale * seen.reshape(*seen.shape[: -len(spec.observation_space.struct.shape)], size) @ weights

    def act(agent, carry, key, observation, explore):
        chosen = logits(agent["params"], observation)
        action = jax.random.categorical(key, chosen) if explore else jnp.argmax(chosen, -1)
        return action.astype(jnp.int32), carry, ()

    def update(agent, key, rollout):
        def follow(total, step):
            total = step[0] + config.discount * total * (1 - step[1])
            return total, total

        ends = rollout.done.astype(jnp.float32)
        _, returns = jax.lax.scan(follow, jnp.zeros_like(ends[0]), (rollout.reward, ends), reverse=True)

        def loss(weights):
            log_probs = jax.nn.log_softmax(logits(weights, rollout.observation))
            chosen = jnp.take_along_axis(log_probs, rollout.action[..., None], -1)[..., 0]
            return -jnp.mean(chosen * (returns - returns.mean()))

        value, gradient = jax.value_and_grad(loss)(agent["params"])
        change, state = optimizer.update(gradient, agent["optimizer"])
        return {"params": optax.apply_updates(agent["params"], change), "optimizer": state}, {"my_loss": value}

    return Algorithm(init=init, initial_carry=lambda num_envs: (), act=act, update=update)


flat = partial(reinforce, scale=0.5)


def untold(spec, config):
    """Do not say which config it takes."""
    return reinforce(spec, config)
