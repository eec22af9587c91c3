"""Wrong calls from Python: each ends in one line that names what is wrong; none in an error of a library below."""

import dataclasses
import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import purerl
from purerl import InputError, IntUniform, LogUniform, Uniform, evaluate, make, make_train, make_trainer, vectorize
from purerl import algos as package
from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.disco import DiscoConfig, disco
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.algos.sac import SACConfig, sac
from purerl.envs.classic.cartpole import CartPole
from purerl.evolution.inner_loop import Plug, Task
from purerl.evolution.strategies import OpenES
from purerl.extensions.groups.joint import multi_agent, policies_for
from purerl.functional.objectives import Clip
from purerl.host_environment import HostSource
from purerl.loop.pieces import check_count, config_class_of
from purerl.loop.train import make_train as make_compiled_train
from purerl.networks.actor_critic import actor_critic
from purerl.reporting import render
from purerl.spaces import Box, Dict, Discrete
from purerl.types import Config, Environment, EnvironmentSpec, TimeStep, number, pytree, static
from purerl.wrappers import FrameStack, TimeLimit

ENV = make("CartPole-v1")
SPEC = EnvironmentSpec(ENV.observation_space, ENV.action_space)
PENDULUM = make("Pendulum-v1")
CONFIG = PPOConfig(num_envs=2, rollout_length=4, num_minibatches=2, total_timesteps=32)
KEY = jax.random.key(0)


def foreign(module):
    """Return an object of a class of another package's."""
    return type("Task", (), {"__module__": module, "reset": lambda self: None, "step": lambda self: None})()


class Hosted(HostSource):
    """A source of host environments."""

    id = "gymnasium/Some-v1"


HOSTED = Hosted()


@functools.cache
def trainer():
    return make_trainer(ppo, ENV, CONFIG)


@functools.cache
def agent():
    return trainer().algorithm.init(KEY)


def of_two():
    return jax.tree.map(lambda x: jnp.stack([x, x]), agent())


@pytree
class Own(Config):
    """A config of a user's."""

    size: int = static(default=3, at_least=1)


def own(spec, config: Own):
    """An algorithm of a user's that is none."""
    return config.size


def of(**parts):
    """Train with own parts."""
    jax.eval_shape(make_train(functools.partial(ppo, **parts), ENV, CONFIG), KEY)


@pytree
class Noise:
    """Options of an extension."""

    noise: float = number(default=1.0)


EXTENSION = purerl.Extension(name="noise", options=Noise, wrap=lambda make, options: make)
TASK = Task(name="CartPole-v1", env=ENV, config=CONFIG, total_timesteps=32)


def extended(extensions):
    """Train with extensions."""
    make_train(ppo, ENV, CONFIG, extensions=extensions)


def wrapping(wrap):
    """Train with an extension of this wrap."""
    extended({EXTENSION._replace(wrap=wrap): Noise(noise=2.0)})


def evolving(candidate=Clip(), learner=Plug(ppo, "objective"), tasks=(TASK,), **options):
    """Evolve for a generation."""
    purerl.evolve(candidate, learner, tasks, **({"population": 2, "generations": 1, "display": "none"} | options))


def seeing(space=Box(-1, 1, (2,)), actions=Discrete(2), observation=jnp.zeros(2), returned=None):
    """Train on an environment of these spaces, whose reset returns this."""

    class Own(Environment):
        observation_space, action_space = space, actions

        def reset(self, key):
            return (jnp.int32(0), observation) if returned is None else returned

        def step(self, key, state, action):
            return state, TimeStep.transition(observation, 1.0, terminated=True, time_up=False)

    jax.eval_shape(make_train(ppo, pytree(Own)(), CONFIG), KEY)


CALLS = {  # what is called -> the words that its line must hold
    # algorithms
    "algorithm: text": (lambda: make_compiled_train("ppo", ENV, CONFIG), "from purerl.algos.ppo import ppo"),
    "algorithm: none": (lambda: make_train(None, ENV, CONFIG), "algorithm is None"),
    "algorithm: number": (lambda: make_train(3, ENV, CONFIG), "algorithm is 3"),
    "algorithm: config class": (lambda: make_train(PPOConfig, ENV, CONFIG), "algorithm is the class PPOConfig"),
    "algorithm: config": (lambda: make_trainer(CONFIG, ENV, CONFIG), "algorithm is a PPOConfig"),
    "algorithm: made": (lambda: make_trainer(ppo(SPEC, CONFIG), ENV, CONFIG), "an Algorithm, which is made for one"),
    "algorithm: module": (lambda: make_trainer(package, ENV, CONFIG), "the module purerl.algos"),
    "algorithm: swapped": (lambda: make_trainer(ENV, ppo, CONFIG), "algorithm is a CartPole"),
    "algorithm: its actions": (lambda: make_trainer(dqn, PENDULUM, DQNConfig()), "needs discrete actions"),
    "algorithm: its box": (
        lambda: make_trainer(sac, make("MountainCar-v0").observation_space, SACConfig()),
        "environment",
    ),
    # parts of it
    "partial: a typo": (lambda: make_train(functools.partial(ppo, netwrok=actor_critic), ENV, CONFIG), "'network'"),
    "partial: a typo in run": (lambda: purerl.train(functools.partial(ppo, netwrok=3), ENV), "'network'"),
    "network: identity": (lambda: of(network=lambda x: x), "takes (x); it must be a function (space, head, config)"),
    "network: text": (lambda: of(network="mlp"), "network is 'mlp'; it must be a module"),
    "optimizer: unnamed rate": (lambda: of(optimizer=lambda rate: optax.sgd(2.0 * rate)), "argument learning_rate or"),
    "optimizer: chain": (lambda: of(optimizer=optax.chain), "optimizer chain(a GradientPlan) fails"),
    "optimizer: a typo": (
        lambda: of(optimizer=functools.partial(optax.adamw, decay=1)),
        "unknown argument of optimizer",
    ),
    "objective: number": (lambda: of(objective=3), "objective is 3; it must be a function (log_ratio, advantage"),
    "objective: arity": (lambda: of(objective=lambda ratio, advantage: ratio), "takes (ratio, advantage); it must"),
    "objective: class": (lambda: of(objective=Clip), "objective is the class Clip; give an instance"),
    "loss: arity": (lambda: of(loss=lambda samples: samples.value), "loss <lambda> takes (samples); it must be"),
    "callback: arity": (
        lambda: purerl.train(ppo, ENV, CONFIG, callbacks=[lambda update: 0]),
        "takes (update); it must",
    ),
    "partial: by position": (
        lambda: make_train(functools.partial(ppo, 3), ENV, CONFIG),
        "has 3 by position; pass it by name",
    ),
    "exploration: number": (
        lambda: make_train(functools.partial(dqn, exploration=3), ENV, DQNConfig()),
        "exploration is 3",
    ),
    "replay: number": (lambda: make_train(functools.partial(dqn, replay=3), ENV, DQNConfig()), "replay is 3"),
    "out: number": (lambda: purerl.train(ppo, ENV, CONFIG, out=3), "out is 3; it must be a path"),
    "resume: none": (lambda: purerl.resume(None), "folder is None; it must be a path"),
    "sweep over: list": (
        lambda: purerl.sweep(ppo, ENV, CONFIG, over=["discount"]),
        "over is a list; it must be a dict",
    ),
    "stats.load: nothing": (lambda: purerl.stats.load([]), "folders is []; it must be a list of the folders"),
    "stats: text": (lambda: purerl.stats.iqm("a"), "scores is 'a'; it must be numbers"),
    "make: by position": (lambda: make("CartPole-v1", 3), "make takes parameters by name"),
    "algorithm: arity": (
        lambda: make_train(lambda spec: 3, ENV, CONFIG),
        "takes (spec); it must be a function (spec, c",
    ),
    # a network's pair (init, apply)
    "network: its parameters": (
        lambda: of(network=(lambda key, x: jnp.int32(3), lambda params, x: x * params)),
        "has the parameter int32; parameters are arrays of floats",
    ),
    "network: its rows": (
        lambda: of(network=(lambda key, x: {}, lambda params, x: x[:1])),
        "returned [1, 4] for 2 obs",
    ),
    # extensions
    "extensions: list": (lambda: extended([EXTENSION]), "extensions is a list; it must be a dict"),
    "extensions: a key": (lambda: extended({3: Noise()}), "a key of extensions is 3; it must be a purerl.Extension"),
    "extensions: its class": (lambda: extended({purerl.Extension: Noise()}), "is the class Extension; it must be a"),
    "extensions: options": (lambda: extended({EXTENSION: 0.1}), "the options of extension noise are 0.1; they must"),
    "extensions: a dataclass": (lambda: extended({EXTENSION._replace(options=Noise()): Noise()}), "must be a class, a"),
    "extensions: excludes": (lambda: extended({EXTENSION._replace(excludes="levels"): Noise()}), "must be a tuple"),
    "extensions: wrap": (lambda: wrapping(None), "wrap of the extension noise is None; it must be a function (make"),
    "extensions: arity": (lambda: wrapping(lambda make: make), "takes (make); it must be a function (make, options)"),
    "extensions: no maker": (
        lambda: wrapping(lambda make, options: None),
        "returned is None; it must be a function (a",
    ),
    "extensions: no trainer": (
        lambda: wrapping(lambda make, options: lambda a, env, config: 3),
        "makes 3; it must be the trainer",
    ),
    # evolution
    "evolve: learner": (lambda: evolving(learner=ppo), "learner ppo takes (spec, config, objective, loss"),
    "evolve: algorithm": (lambda: evolving(learner=Plug("ppo", "objective")), "from purerl.algos.ppo import ppo"),
    "evolve: tasks": (lambda: evolving(tasks="Catch"), "tasks is 'Catch'; it must be a list of"),
    "evolve: a task": (lambda: evolving(tasks=[("Catch", ENV, CONFIG, 32)]), "it must be a list of"),
    "evolve: environment": (lambda: evolving(tasks=[TASK._replace(env="Catch")]), "purerl.make('Catch')"),
    "evolve: redraw": (lambda: evolving(tasks=[TASK._replace(redraw="gravity")]), "must be a function (key, env)"),
    "evolve: names": (lambda: evolving(tasks=[TASK, TASK]), "is 'CartPole-v1'; it must be a text that no other task"),
    "evolve: candidate": (lambda: evolving("lpo"), "str has no parameters to evolve"),
    "evolve: a maker": (lambda: evolving(Clip), "has no parameters to evolve"),
    "evolve: strategy": (lambda: evolving(strategy=5), "strategy is 5; it must be a name, or one of"),
    "evolve: its name": (lambda: evolving(strategy="cma_ess"), "unknown strategy 'cma_ess': did you mean 'cma_es'"),
    "evolve: its class": (lambda: evolving(strategy=OpenES), "strategy is the class OpenES; give an instance"),
    "evolve: its sigma": (lambda: evolving(strategy=OpenES(start_sigma=-1.0)), "OpenES: start_sigma is -1.0"),
    "evolve: its optimizer": (
        lambda: evolving(strategy=OpenES(optimizer="adam")),
        "optimizer is 'adam'; it must be: function",
    ),
    "disco: rule": (lambda: make_train(functools.partial(disco, rule={}), ENV, DiscoConfig()), "rule is {}; it must"),
    # statistics
    "stats.load: a number": (lambda: purerl.stats.load([3]), "a folder is 3; it must be a path"),
    "stats.load: scale": (lambda: purerl.stats.load(["x"], scale=[0, 1]), "scale is a list; it must be a dict"),
    "stats: nothing": (lambda: purerl.stats.iqm([]), "scores has the shape (0,); it must be [seeds] or"),
    "stats: a number": (lambda: purerl.stats.resample(KEY, 1.0), "scores has the shape (); it must be [seeds] or"),
    "stats: other tasks": (
        lambda: purerl.stats.probability_of_improvement(np.zeros((3, 2)), np.zeros((3, 4))),
        "a has the shape (3, 2) and b (3, 4)",
    ),
    "stats: a point": (lambda: purerl.stats.area_under_curve([1.0], [2.0]), "both need two points or more"),
    "stats: a seed": (lambda: purerl.stats.seeds_needed([1.0], [2.0]), "needs two seeds of each or more"),
    "stats: key": (lambda: purerl.stats.bootstrap_interval(0, [1.0, 2.0]), "key is 0; it must be a key of JAX"),
    "stats: no scores": (lambda: purerl.stats.bootstrap_interval(KEY), "needs an array of scores"),
    "stats: confidence": (lambda: purerl.stats.bootstrap_interval(KEY, [1.0], confidence=95), "confidence 95; at le"),
    "stats: statistic": (lambda: purerl.stats.bootstrap_interval(KEY, [1.0], statistic="iqm"), "statistic is 'iqm'"),
    # what an environment sees and does
    "spaces: foreign": (
        lambda: seeing(space=np.zeros(2)),
        "of Own is an ndarray; it must be a space",
    ),
    "spaces: of gymnasium": (
        lambda: seeing(actions=gymnasium.spaces.Discrete(2)),
        "is a Discrete of gymnasium; it must",
    ),
    "spaces: mask": (
        lambda: seeing(space=Dict({"x": Box(0, 1, (2,)), "action_mask": Box(0, 1, (3,), jnp.bool_)})),
        "action_mask is Box bool[3]; it must be bool[2]",
    ),
    "spaces: a mask alone": (lambda: seeing(space=Dict({"action_mask": Box(0, 1, (2,), jnp.bool_)})), "nothing to act"),
    "reset: shape": (lambda: seeing(space=Box(0, 1, (3,))), "Own.reset returns the observation float32[2]; its space"),
    "reset: dict": (
        lambda: seeing(observation={"x": jnp.zeros(2)}),
        "{'x': 'float32[2]'}; its space is Box float32[2]",
    ),
    "reset: text": (lambda: seeing(observation="north"), "Own.reset returned 'north' in the observation"),
    "reset: one": (lambda: seeing(returned=jnp.zeros(2)), "it must return (state, observation)"),
    "space: key": (lambda: Discrete(3).sample(0), "key is 0; it must be a key of JAX"),
    # environments
    "env: text": (lambda: make_compiled_train(ppo, "CartPole-v1", CONFIG), "purerl.make('CartPole-v1')"),
    "env: none": (lambda: make_train(ppo, None, CONFIG), "environment is None"),
    "env: class": (lambda: make_train(ppo, CartPole, CONFIG), "the class CartPole; give an instance"),
    "env: number": (lambda: make_trainer(ppo, 4, CONFIG), "environment is 4"),
    "env: of gymnasium": (lambda: make_train(ppo, foreign("gymnasium.core"), CONFIG), "purerl.make('gymnasium/NAME')"),
    "env: of gym": (lambda: make_train(ppo, foreign("gym.envs"), CONFIG), "purerl.make('gymnasium/NAME')"),
    "env: of gymnax": (lambda: make_train(ppo, foreign("gymnax.environments"), CONFIG), "purerl.from_gymnax(env)"),
    "env: of brax": (lambda: make_train(ppo, foreign("brax.envs.ant"), CONFIG), "purerl.from_brax(env)"),
    "env: of envpool": (lambda: make_trainer(ppo, foreign("envpool.x"), CONFIG), "purerl.make('envpool/NAME')"),
    "env: of pgx": (lambda: vectorize(foreign("pgx.core"), 4), "purerl.from_pgx(env)"),
    "env: without spaces": (lambda: make_train(ppo, foreign("mine"), CONFIG), "must be from purerl.make"),
    "env: vector": (lambda: make_train(ppo, vectorize(ENV, 2).env.reset, CONFIG), "environment is a"),
    "env: a space": (lambda: make_trainer(ppo, Discrete(n=2), CONFIG), "environment is a Discrete"),
    # configs
    "config: none": (lambda: make_compiled_train(ppo, ENV, None), "config is None; it must be a PPOConfig"),
    "config: dict": (lambda: make_train(ppo, ENV, {"learning_rate": 1e-3}), "config is a dict"),
    "config: empty dict": (lambda: make_train(ppo, ENV, {}), "config is {}"),
    "config: class": (lambda: make_train(ppo, ENV, PPOConfig), "config is the class PPOConfig"),
    "config: text": (lambda: make_trainer(ppo, ENV, "fast"), "config is 'fast'"),
    "config: foreign": (lambda: make_train(dqn, ENV, PPOConfig()), "config is a PPOConfig; dqn needs a DQNConfig"),
    "config: foreign too": (lambda: make_train(ppo, ENV, DQNConfig()), "config is a DQNConfig; ppo needs a PPOConfig"),
    "config: of a partial": (
        lambda: make_trainer(functools.partial(ppo, network=actor_critic), ENV, A2CConfig()),
        "ppo needs a PPOConfig",
    ),
    "config: of one's own": (lambda: make_trainer(own, ENV, CONFIG), "own needs an Own, such as Own()"),
    "config: another dataclass": (lambda: make_trainer(ppo, ENV, ENV), "config is a CartPole"),
    "num_envs 0": (lambda: make_train(ppo, ENV, PPOConfig(num_envs=0)), "num_envs is 0; it must be at least 1"),
    "num_envs text": (lambda: make_train(ppo, ENV, PPOConfig(num_envs="4")), "num_envs is '4'; it must be: integer"),
    "num_envs float": (lambda: make_train(ppo, ENV, PPOConfig(num_envs=4.0)), "num_envs is 4.0"),
    "num_envs true": (lambda: make_train(ppo, ENV, PPOConfig(num_envs=True)), "num_envs is True"),
    "num_minibatches 0": (lambda: make_train(ppo, ENV, PPOConfig(num_minibatches=0)), "num_minibatches is 0"),
    "num_minibatches 3": (lambda: make_train(ppo, ENV, PPOConfig(num_minibatches=3)), "num_minibatches 3 does not"),
    "hidden_sizes 64": (lambda: make_train(ppo, ENV, PPOConfig(hidden_sizes=64)), "it must be: list of integers"),
    "hidden_sizes texts": (lambda: make_train(ppo, ENV, PPOConfig(hidden_sizes=["64"])), "list of integers"),
    "hidden_sizes 0": (lambda: make_train(ppo, ENV, PPOConfig(hidden_sizes=[0])), "hidden_sizes is 0"),
    "learning_rate text": (lambda: make_train(ppo, ENV, PPOConfig(learning_rate="1e-3")), "learning_rate is '1e-3'"),
    "learning_rate none": (lambda: make_train(ppo, ENV, PPOConfig(learning_rate=None)), "learning_rate is None"),
    "learning_rate nan": (lambda: make_train(ppo, ENV, PPOConfig(learning_rate=float("nan"))), "learning_rate is nan"),
    "learning_rate inf": (lambda: make_train(ppo, ENV, PPOConfig(learning_rate=float("inf"))), "learning_rate is inf"),
    "learning_rate -1": (lambda: make_train(ppo, ENV, PPOConfig(learning_rate=-1)), "learning_rate is -1"),
    "schedule": (lambda: make_train(ppo, ENV, PPOConfig(learning_rate_schedule="exp")), "learning_rate_schedule is"),
    "discount 2": (lambda: make_train(ppo, ENV, PPOConfig(discount=2)), "discount is 2"),
    "activation": (lambda: make_train(ppo, ENV, PPOConfig(activation="sigmoid")), "activation is 'sigmoid'; allowed:"),
    "rnn none": (lambda: make_train(ppo, ENV, PPOConfig(rnn=None)), "rnn is None; it must be: text"),
    "layer_norm 1": (lambda: make_train(ppo, ENV, PPOConfig(layer_norm=1)), "layer_norm is 1; it must be: true"),
    "num_atoms 1.5": (lambda: make_train(dqn, ENV, DQNConfig(batch_size=1.5)), "batch_size is 1.5"),
    "field lr": (lambda: PPOConfig(lr=1), "unknown field of PPOConfig 'lr': did you mean"),
    "field num_env": (lambda: PPOConfig(num_env=1), "did you mean 'num_envs'"),
    "field by place": (lambda: PPOConfig(4), "PPOConfig takes its fields by name"),
    "field replaced": (lambda: dataclasses.replace(CONFIG, gama=1), "unknown field of PPOConfig 'gama'"),
    "env field": (lambda: CartPole(gravty=1), "did you mean 'gravity'"),
    "space without n": (lambda: Discrete(), "Discrete needs n"),
    "box without bounds": (lambda: Box(shape=(3,)), "Box needs low and high"),
    # lengths
    "steps text": (lambda: make_train(ppo, ENV, CONFIG, total_timesteps="5"), "total_timesteps is '5'"),
    "steps 0": (lambda: make_train(ppo, ENV, CONFIG, 0), "total_timesteps is 0"),
    "steps few": (lambda: make_train(ppo, ENV, CONFIG, 3), "total_timesteps 3 is less than one rollout"),
    "steps 99.5": (lambda: make_train(ppo, ENV, CONFIG, 99.5), "total_timesteps is 99.5"),
    "points many": (lambda: make_train(ppo, ENV, CONFIG, num_points=9), "num_points is 9"),
    "points text": (lambda: make_train(ppo, ENV, CONFIG, num_points="9"), "num_points is '9'"),
    "points 0": (lambda: make_train(ppo, ENV, CONFIG, num_points=0), "num_points is 0"),
    # keys
    "key 0": (lambda: make_train(ppo, ENV, CONFIG)(0), "key is 0; it must be a key of JAX"),
    "key none": (lambda: make_train(ppo, ENV, CONFIG)(None), "key is None"),
    "key array": (lambda: make_train(ppo, ENV, CONFIG)(np.zeros(3)), "key is an ndarray"),
    "keys": (lambda: make_train(ppo, ENV, CONFIG)(jax.random.split(KEY, 4)), "jax.vmap trains one agent for each"),
    "init 0": (lambda: trainer().init(0), "key is 0"),
    # vectorize
    "vectorize 0": (lambda: vectorize(ENV, 0), "num_envs is 0; it must be at least 1"),
    "vectorize -1": (lambda: vectorize(ENV, -1), "num_envs is -1"),
    "vectorize text": (lambda: vectorize("CartPole-v1", 2), "purerl.make('CartPole-v1')"),
    "vectorize 2.5": (lambda: vectorize(ENV, 2.5), "num_envs is 2.5"),
    "vectorize policy": (lambda: vectorize(ENV, 2, "never"), "unknown reset policy 'never'"),
    "vectorize pool": (lambda: vectorize(ENV, 2, "pool", 0), "pool_size is 0"),
    # make
    "make none": (lambda: make(None), "make takes the id of an environment"),
    "make env": (lambda: make(ENV), "this is a CartPole"),
    "make class": (lambda: make(CartPole), "this is the class CartPole"),
    "make unknown": (lambda: make("CartPole-v2"), "did you mean 'CartPole-v1'"),
    "make parameter": (lambda: make("CartPole-v1", gravty=1), "did you mean 'gravity'"),
    "make gravity text": (lambda: make("CartPole-v1", gravity="a"), "CartPole-v1: gravity is 'a'; it must be: number"),
    "make gravity nan": (lambda: make("CartPole-v1", gravity=float("nan")), "gravity is nan"),
    "make time_limit -1": (lambda: make("CartPole-v1", time_limit=-1), "time_limit is -1; it must be at least 1"),
    "make time_limit 0": (lambda: make("Acrobot-v1", time_limit=0), "time_limit is 0"),
    "make time_limit 2.5": (lambda: make("Pendulum-v1", time_limit=2.5), "time_limit is 2.5; it must be: integer"),
    # ranges
    "Uniform(1, 0)": (lambda: Uniform(1, 0), "the range 1:0 is empty"),
    "Uniform(1, 1)": (lambda: Uniform(1, 1), "the range 1:1 is empty"),
    "Uniform texts": (lambda: Uniform("a", 1), "its ends must be numbers"),
    "Uniform nan": (lambda: Uniform(float("nan"), 1), "is empty"),
    "LogUniform(0, 1)": (lambda: LogUniform(0, 1), "must be above 0"),
    "IntUniform(0.5, 2)": (lambda: IntUniform(0.5, 2), "its ends must be integers"),
    # trained agents
    "evaluate text": (lambda: evaluate("runs/x", agent(), KEY), "trainer is a str"),
    "evaluate key": (lambda: evaluate(trainer(), agent(), 0), "key is 0"),
    "evaluate seeds": (lambda: evaluate(trainer(), of_two(), KEY), "agent has a leading axis of 2"),
    "evaluate none": (lambda: evaluate(trainer(), None, KEY), "agent is a NoneType"),
    "evaluate params": (lambda: evaluate(trainer(), agent().params, KEY), "agent is a dict"),
    "evaluate 0": (lambda: evaluate(trainer(), agent(), KEY, 0), "num_episodes is 0"),
    "load_run none": (lambda: purerl.load_run(None), "None"),
    "load_run nowhere": (lambda: purerl.load_run("nowhere"), "no such folder"),
    "play text": (lambda: purerl.play("CartPole-v1", None, KEY), "env is a str"),
    "play none": (lambda: purerl.play(ENV, None, KEY), "policy is a NoneType"),
    "play 0": (lambda: purerl.play(ENV, render.random_policy(ENV), KEY, 0), "max_steps is 0"),
    # wrappers and groups
    "wrapped twice": (lambda: TimeLimit(ENV, steps=3), "unknown field of TimeLimit 'steps'"),
    "nothing wrapped": (lambda: FrameStack(), "FrameStack needs env"),
    "groups of one": (lambda: make_trainer(multi_agent, ENV, CONFIG), "config is a PPOConfig; multi_agent needs"),
    "no groups": (lambda: policies_for(ENV, ppo, CONFIG), "groups of agents"),
    # networks and optimizers
    "network": (lambda: make_trainer(functools.partial(ppo, network="nature"), ENV, CONFIG), "network is 'nature'"),
    "optimizer": (
        lambda: make_trainer(functools.partial(a2c, optimizer="adam"), ENV, A2CConfig()),
        "optimizer is 'adam'",
    ),
    "optimizer made": (
        lambda: make_trainer(functools.partial(dqn, optimizer=optax.adam(1e-3)), ENV, DQNConfig()),
        "give the function that makes it",
    ),
    # the door of the command
    "train: algorithm": (lambda: purerl.train("pppo", "CartPole-v1"), "unknown algorithm 'pppo': did you mean 'ppo'"),
    "train: none": (lambda: purerl.train(None, "CartPole-v1"), "no algorithm"),
    "train: environment": (lambda: purerl.train("ppo", "Ant"), "did you mean 'brax/ant'"),
    "train: foreign": (lambda: purerl.train("ppo", foreign("gymnasium.core")), "purerl.make('gymnasium/NAME')"),
    "train: number": (lambda: purerl.train("ppo", 3), "environment is 3"),
    "train: class": (lambda: purerl.train("ppo", CartPole), "the class CartPole; give an instance"),
    "train: config": (lambda: purerl.train("ppo", "CartPole-v1", DQNConfig()), "it must be a PPOConfig"),
    "train: setting": (lambda: purerl.train("ppo", "CartPole-v1", lr=1), "did you mean 'learning_rate'"),
    "train: value": (lambda: purerl.train("ppo", "CartPole-v1", num_envs="many"), "num_envs is 'many'"),
    "train: zero": (lambda: purerl.train("ppo", "CartPole-v1", num_minibatches=0), "num_minibatches is 0"),
    "names: config": (lambda: make_train("ppo", "CartPole-v1", {}), "it must be a PPOConfig"),
    # the suite
    "check_algorithm": (lambda: purerl.testing.check_algorithm("ppo"), "algorithm is the text 'ppo'"),
    "check_environment": (lambda: purerl.testing.check_environment("CartPole-v1"), "purerl.make('CartPole-v1')"),
    "play host": (lambda: purerl.play(HOSTED, None, KEY), "gymnasium/Some-v1 runs on the host"),
    "make_train host": (lambda: make_train(ppo, HOSTED, CONFIG), "gymnasium/Some-v1 runs on the host"),
    "check_environment class": (lambda: purerl.testing.check_environment(CartPole), "the class CartPole"),
}


@pytest.mark.long_for("Uniform nan", "evaluate key", "evaluate seeds", "evaluate text")
@pytest.mark.parametrize("what", CALLS)
def test_a_wrong_call_is_told_in_a_line(what):
    call, words = CALLS[what]
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert words in message and "\n" not in message and len(message) < 400, message


def test_there_are_many():
    assert len(CALLS) >= 80


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ppo", "from purerl.algos.ppo import ppo"),
        ("PPO", "from purerl.algos.ppo import PPOConfig"),
        ("DQNConfig", "from purerl.algos.dqn import DQNConfig"),
        ("CartPole", "from purerl.envs.classic.cartpole import CartPole"),
        ("algos", "import purerl.algos"),
        ("make_trian", "did you mean 'make_train'"),
        ("nonsense_of_all_kinds", "has no attribute 'nonsense_of_all_kinds'"),
    ],
)
def test_a_name_that_is_elsewhere_says_where(monkeypatch, name, words):
    monkeypatch.delitem(vars(purerl), name, raising=False)  # a subpackage that was imported is an attribute
    with pytest.raises(AttributeError, match=words):
        getattr(purerl, name)


@pytest.mark.long
def test_what_is_right_passes():
    assert config_class_of(functools.partial(ppo, loss=None)) is PPOConfig
    assert config_class_of(own) is Own and config_class_of(lambda spec, config: None) is None
    assert check_count(1e4, "n") == 10_000 and check_count(np.int64(3), "n") == 3
    make_trainer(ppo, ENV, dataclasses.replace(CONFIG, hidden_sizes=[4, 4], total_timesteps=1e4))
    jax.eval_shape(jax.vmap(make_train(ppo, ENV, CONFIG)), jax.random.split(KEY, 2))


@pytest.mark.long
def test_numbers_of_64_bits():
    with jax.enable_x64(True), pytest.raises(InputError, match="JAX computes in 64 bits here, and purerl in 32"):
        make_trainer(ppo, CartPole(), PPOConfig())
