"""The value at a time limit, in every algorithm: treating it as a termination gives a value that is wrong by 1.

`test_updates.py` checks the same for one update, by its dependence on the final observation.
"""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from purerl import make_trainer
from purerl.algos.mpo import MPOConfig
from purerl.catalog.algorithms import ALGORITHMS
from purerl.extensions.groups.joint import multi_agent, policies_for
from purerl.functional.distributions import action_head
from purerl.networks.actor_critic import ActorCriticConfig, actor_critic
from purerl.networks.q_networks import q_network
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Environment, TimeStep, number, pytree, static
from tests.helpers.marks import rows
from tests.helpers.small import small

QUICK = {"a2c", "dqn", "impala", "pqn", "ppo", "sac", "td3", "vdn"}  # the others share their code
DISCOUNT = 0.5  # reward 1 forever is worth 1 / (1 - 0.5) = 2; if the task ends after each step, 1


@pytree
class OneState(Environment):
    """Reward 1 per step; every step, or one in so many, is the last of its episode, by an ending or by a time limit."""

    terminates: bool = number()
    chance: float = number(default=1.0)
    continuous: bool = static(default=False)

    def reset(self, key):
        return jnp.int32(0), jnp.ones(2)

    def step(self, key, state, action):
        over = jax.random.uniform(key) < self.chance
        return state, TimeStep.transition(jnp.ones(2), jnp.float32(1), terminated=over & self.terminates, time_up=over)

    @property
    def observation_space(self):
        return Box(low=0.0, high=1.0, shape=(2,))

    @property
    def action_space(self):
        return Box(low=-1.0, high=1.0, shape=(1,)) if self.continuous else Discrete(n=2)


@pytree
class OneStateOfTwo(Environment):
    """The same for a team of two, rewarded together."""

    terminates: bool = number()

    def reset(self, key):
        return jnp.int32(0), self._seen()

    def step(self, key, state, action):
        terminated = jnp.asarray(self.terminates)
        return state, TimeStep.transition(self._seen(), {"team": jnp.ones(2)}, terminated=terminated, time_up=True)

    def _seen(self):
        return {"team": jnp.ones((2, 2)), "global_state": jnp.ones(2)}

    @property
    def observation_space(self):
        box = Box(low=0.0, high=1.0, shape=(2,))
        return Dict(spaces={"team": Stacked(space=box, n=2), "global_state": box})

    @property
    def action_space(self):
        return Dict(spaces={"team": Stacked(space=Discrete(n=2), n=2)})


def settings(name):
    """Small networks and quick learning; exploring and entropy have no part in the value."""
    factory, config = small(name)
    names = {field.name for field in dataclasses.fields(config)}
    wanted = {"discount": DISCOUNT, "hidden_sizes": (8,), "learning_rate": 0.02, "total_timesteps": 12_000}
    wanted |= {"learning_rate_schedule": "constant", "entropy_coefficient": 0.0, "value_clip": None}
    wanted |= {"v_min": 0.0, "v_max": 3.0, "num_atoms": 31, "num_quantiles": 5, "rnn_size": 8}
    wanted |= {"initial_temperature": 1e-6, "target_entropy": -50.0, "tau": 0.1}
    if name in ("qmix", "vdn"):  # their target follows a tenth of the way every twenty steps
        wanted["total_timesteps"] = 36_000
    if name in ("r2d2", "ddpg", "td3", "disco"):
        wanted |= {"rollout_length": 8, "num_gradient_steps": 8, "burn_in": 8, "sequence_length": 8}
    return factory, dataclasses.replace(config, **{field: x for field, x in wanted.items() if field in names})


def value(trainer, config, state, metrics):
    """The value that an agent gives to the only state: as it reports it, or its critic's."""
    metrics = metrics.algorithm
    if "q_value" in metrics:
        return metrics["q_value"]
    if "actor_loss" in metrics:
        return -metrics["actor_loss"]
    env, agent = trainer.environment, state.agent
    _, _, extras = trainer.algorithm.act(agent, state.carry, state.key, state.observation, True)
    if "root_value" in extras:  # MCTS
        return jnp.mean(extras["root_value"])
    if isinstance(config, MPOConfig):
        q = q_network(env.observation_space, env.action_space.n, config)
        return jnp.mean(q.apply(agent.params["networks"]["critics"][0], jnp.ones(2), None))
    if not hasattr(config, "rnn"):
        config = ActorCriticConfig(
            **{
                f.name: getattr(config, f.name)
                for f in dataclasses.fields(ActorCriticConfig)
                if hasattr(config, f.name)
            }
        )
    critic = actor_critic(env.observation_space, action_head(env.action_space), config).value
    params = agent.params
    return critic(params.get("network", params), (), jnp.ones(2))  # the parameters also hold dual variables


@pytest.mark.long
@pytest.mark.parametrize("name", rows(ALGORITHMS, QUICK))
def test_a_time_limit_is_not_an_ending(name):
    factory, config = settings(name)
    continuous = "discrete" not in ALGORITHMS[name].actions
    # The value after a step uses the carry after one step, which a recurrent network learns only in longer episodes.
    chance = 0.5 if name == "r2d2" else 1.0

    def train(terminates):
        if name in ("qmix", "vdn"):
            env = OneStateOfTwo(terminates=terminates)
            trainer = make_trainer(multi_agent, env, policies_for(env, factory, config))
        else:
            trainer = make_trainer(
                factory, OneState(terminates=terminates, chance=chance, continuous=continuous), config
            )
        updates = int(config.total_timesteps) // config.steps_per_update
        state = jax.lax.fori_loop(0, updates, lambda _, s: trainer.step(s)[0], trainer.init(jax.random.key(0)))
        return value(trainer, config, *trainer.step(state))

    limited, done = jax.jit(jax.vmap(train))(jnp.array([False, True]))
    assert float(limited) == pytest.approx(2.0, abs=0.25)
    assert float(done) == pytest.approx(1 / (1 - DISCOUNT * (1 - chance)), abs=0.15)
