"""A user's modules as networks, from Flax Linen and NNX, in every algorithm."""

import dataclasses
import functools
import re
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from purerl import InputError, make, make_train, registry
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.catalog.algorithms import WITH_FOLLOWERS
from purerl.networks.modules import own_torso
from purerl.spaces import Box, Dict, Discrete
from purerl.testing.trees import paths
from purerl.types import EnvironmentSpec
from tests.helpers.team import of_one


class Transformed(NamedTuple):
    """What `haiku.transform` returns."""

    init: Any
    apply: Any


class Linen(nn.Module):
    """Features by a layer, of exactly one leading axis."""

    size: int = 5

    @nn.compact
    def __call__(self, observation):
        leaves = [x.astype(jnp.float32).reshape(x.shape[0], -1) for x in jax.tree.leaves(observation)]
        return jnp.tanh(nn.Dense(self.size, name="mine")(jnp.concatenate(leaves, axis=-1)))


class Modern(nnx.Module):
    """The same of NNX, with a list of layers."""

    def __init__(self, inputs, size, rngs):
        self.layers = nnx.List([nnx.Linear(inputs, size, rngs=rngs), nnx.Linear(size, size, rngs=rngs)])

    def __call__(self, observation):
        for layer in self.layers:
            observation = jnp.tanh(layer(observation))
        return observation


@partial(jax.tree_util.register_dataclass, data_fields=["layer"], meta_fields=["activation"])
@dataclasses.dataclass
class Tree:
    """The same as a pytree that is called on one observation, as a module of equinox is."""

    layer: tuple
    activation: object = jnp.tanh

    def __call__(self, observation):
        weight, bias = self.layer
        return self.activation(weight @ observation + bias)


def tree(key):
    return Tree((jax.random.normal(key, (5, 4)), jnp.zeros(5)))


def start(key, observation):
    return {"w": jax.random.normal(key, (observation.shape[-1], 5))}


def apply(params, observation):
    return jnp.tanh(observation @ params["w"])


def apply_keyed(params, rng, observation):
    assert rng is None
    return apply(params, observation)


@pytest.mark.parametrize(
    "network",
    [tree, tree(jax.random.key(0)), (start, apply), Transformed(start, apply_keyed)],
    ids=["function of a key", "pytree", "pair", "haiku"],
)
@pytest.mark.parametrize(
    ("algorithm", "config_class"), [(ppo, PPOConfig), pytest.param(dqn, DQNConfig, marks=pytest.mark.long)]
)
def test_modules_of_other_libraries_learn(network, algorithm, config_class):
    """Their parameters are the agent's: they change, and agents of a function draw their own."""
    train = make_train(partial(algorithm, network=network), make("CartPole-v1"), small(config_class))
    states, _ = jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), 2))
    mine = [leaf for path, leaf in paths(states.agent.params).items() if "pair" in path or "pytree" in path]
    assert mine and all(np.isfinite(leaf).all() for leaf in mine)
    weight = next(leaf for leaf in mine if leaf.ndim == 3)
    assert not np.array_equal(weight[0], weight[1])
    if isinstance(network, Tree):
        assert not np.array_equal(weight[0], network.layer[0]), "it learned"


SMALL = {"hidden_sizes": (4,), "num_envs": 4, "rollout_length": 8, "total_timesteps": 320}
REPLAY = {"batch_size": 8, "learning_starts": 32, "replay_capacity": 64}


def small(config_class, **more):
    wanted = SMALL | REPLAY | {"num_minibatches": 2, "burn_in": 0, "sequence_length": 8, "n_step": 1} | more
    wanted |= {"weights": "random"}  # weights of Disco's rule
    if config_class.__name__ in ("VDNConfig", "QMIXConfig"):
        wanted = {name: value for name, value in wanted.items() if name not in ("burn_in", "sequence_length")}
    if config_class.__name__ == "DiscoConfig":
        wanted |= {"batch_size": 2}
    if config_class.__name__ == "R2D2Config":
        wanted |= {"learning_starts": 320, "replay_capacity": 640}
    return config_class(**{name: value for name, value in wanted.items() if name in config_class.__dataclass_fields__})


def traced(algorithm, config, env):
    """Return the shapes of an agent's parameters before and after an update, without compiling."""
    from purerl.training import make_trainer

    trainer = make_trainer(algorithm, env, config)
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    after = jax.eval_shape(trainer.step, state)[0]
    assert jax.tree.structure(after.agent) == jax.tree.structure(state.agent)
    return state.agent


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(WITH_FOLLOWERS))
def test_every_algorithm_takes_a_module_and_an_optimizer_of_optax(name):
    factory, config_class = registry.algorithm(name)
    entry = WITH_FOLLOWERS[name]
    own = functools.wraps(factory)(partial(factory, network=Linen(), optimizer=optax.lion))
    if name in ("vdn", "qmix"):
        shapes = traced(of_one(own), small(config_class), make("CartPole-v1"))
    else:
        env = make("CartPole-v1" if "discrete" in entry.actions else "Pendulum-v1")
        shapes = traced(own, small(config_class), env)
    names = paths(shapes)
    assert any("mine" in path and path.endswith("['kernel']") for path in names), "its parameters are learned"
    assert not any(re.search(r"\.nu\b", path) for path in names), "Lion has one moment, Adam two"


@pytest.mark.long
def test_the_features_are_the_modules():
    """By hand: one layer and its tanh, for any leading axes."""
    space = Box(low=-1.0, high=1.0, shape=(3,))
    torso, size = own_torso(space, Linen(7))
    params = torso.init(jax.random.key(0), space.zeros())["params"]
    assert size == 7
    kernel = np.asarray(params["module"]["mine"]["kernel"])
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    for seen in (x, x[0], x[0, 0]):
        found = torso.apply({"params": params}, jnp.asarray(seen))
        np.testing.assert_allclose(found, np.tanh(seen @ kernel), rtol=1e-5, atol=1e-6)


def test_parts_of_a_dict_come_by_name_without_the_mask():
    seen = []

    class Looks(nn.Module):
        @nn.compact
        def __call__(self, observation):
            seen.append({name: x.shape for name, x in observation.items()})
            return nn.Dense(2)(observation["board"].astype(jnp.float32).reshape(len(observation["board"]), -1))

    parts = {"board": Box(low=0, high=1, shape=(2, 2), dtype=jnp.int32), "action_mask": Box(low=0, high=1, shape=(3,))}
    config = PPOConfig(**SMALL, num_minibatches=2)
    algo = ppo(EnvironmentSpec(Dict(spaces=parts), Discrete(n=3)), config, network=Looks())
    agent = jax.eval_shape(algo.init, jax.random.key(0))
    observation = {"board": jnp.zeros((4, 2, 2), jnp.int32), "action_mask": jnp.ones((4, 3))}
    jax.eval_shape(lambda a, o: algo.act(a, (), jax.random.key(0), o, True), agent, observation)
    assert {tuple(sorted(one)) for one in seen} == {("board",)} and seen[-1]["board"] == (4, 2, 2)


@pytest.mark.long
def test_nnx_is_drawn_for_each_agent_or_begins_as_given():
    algo = dqn(*_cartpole(), network=lambda rngs: Modern(4, 6, rngs))
    agents = jax.vmap(algo.init)(jax.random.split(jax.random.key(0), 2))
    kernels = {path: x for path, x in paths(agents.params).items() if "kernel" in path and "nnx" in path}
    assert len(kernels) == 2 and all(np.any(x[0] != x[1]) for x in kernels.values())
    given = Modern(4, 6, nnx.Rngs(3))
    algo = dqn(*_cartpole(), network=given)
    agent = algo.init(jax.random.key(0))
    found = next(x for path, x in paths(agent.params).items() if "layers.0.kernel" in path)
    np.testing.assert_array_equal(found, given.layers[0].kernel[...])


@pytest.mark.long
def test_nnx_learns():
    config = PPOConfig(**SMALL, num_minibatches=2, learning_rate=0.01)
    from purerl.training import make_trainer

    trainer = make_trainer(partial(ppo, network=lambda rngs: Modern(4, 6, rngs)), make("CartPole-v1"), config)
    state = trainer.init(jax.random.key(0))
    after, metrics = jax.jit(trainer.step)(state)
    before, later = paths(state.agent.params), paths(after.agent.params)
    moved = [path for path in before if "nnx" in path and np.any(np.asarray(before[path]) != np.asarray(later[path]))]
    assert len(moved) == 8, "kernel and bias of two layers, in both bodies"
    assert np.isfinite(float(metrics.algorithm["policy_loss"]))


def _cartpole():
    env = make("CartPole-v1")
    return EnvironmentSpec(env.observation_space, env.action_space), DQNConfig(**SMALL, **REPLAY)


class Flat(nn.Module):
    @nn.compact
    def __call__(self, observation):
        return observation.sum()


class Counts(nn.Module):
    @nn.compact
    def __call__(self, observation):
        return nn.BatchNorm(use_running_average=False)(nn.Dense(3)(observation))


class Dropped(nn.Module):
    @nn.compact
    def __call__(self, observation):
        return nn.Dropout(0.1, deterministic=False)(nn.Dense(3)(observation))


class Wants(nn.Module):
    @nn.compact
    def __call__(self, observation):
        return nn.Dense(2)(observation["image"])


WRONG: dict[str, tuple[Any, str]] = {
    "no module": (5, "network is 5; it must be a module"),
    "a name": ("nature", "it must be a module"),
    "no features": (Flat(), "network Flat returned float32[]; it must return features"),
    "other state": (Counts(), "network Counts holds batch_stats"),
    "other observations": (Wants(), "network Wants does not accept observations of Box"),
    "its class": (Modern, "network is the class Modern; give an instance"),
    "dropout": (Dropped(), "network Dropped uses random numbers for dropout"),
    "dropout of NNX": (lambda rngs: nnx.Dropout(0.5, rngs=rngs), "holds"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_what_is_no_network_is_refused_in_a_line(name, what):
    network, words = WRONG[what]
    env = make("CartPole-v1")
    factory, config_class = registry.algorithm(name)
    with pytest.raises(InputError) as caught:
        factory(EnvironmentSpec(env.observation_space, env.action_space), small(config_class), network=network)
    assert words in str(caught.value) and "\n" not in str(caught.value)
