"""The suite of algorithms where features meet: trained agents in other runs, agents that leave, counters, failures."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.loop.train import Trainer, collect, make_trainer
from purerl.multi_agent.joint import Policy, multi_agent, policies_for
from purerl.spaces import Box, Dict, Space, Stacked
from purerl.testing.probes import Probe
from purerl.testing.report import Check
from purerl.testing.trees import difference, host
from purerl.types import AlgorithmFactory, Array, Environment, Key, PyTree, TimeStep, number, pytree

UPDATES = 4
LIMIT = np.iinfo(np.int32).max
COUNTERS = ("num_updates", "num_gradient_steps", "rollouts", "added", "count", "steps")  # names that count without end
HORIZON = 1e13  # environment steps: an annealed learning rate has not fallen when the counters are at their limit


@pytree
class Duo(Environment):
    """Two agents `left` and one agent `right`, each in a probe of its own; the second of `left` leaves after a step.

    An episode ends after four steps, by the time.
    """

    probe: Probe = number()

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start all three."""
        places = jax.vmap(self.probe.reset)(jax.random.split(key, 3))[0]
        return (places, jnp.int32(0)), self._seen(places, jnp.int32(0))

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step all three; a probe that ended begins anew."""
        places, time = state
        actions = jax.tree.map(lambda *xs: jnp.concatenate(xs), action["left"], action["right"])
        keys = jax.random.split(key, (3, 2))
        after, step = jax.vmap(self.probe.step)(keys[:, 0], places, actions)
        again, _ = jax.vmap(self.probe.reset)(keys[:, 1])
        places, time = jnp.where(step.done, again, after), time + 1
        reward = {"left": step.reward[:2], "right": step.reward[2:]}
        return (places, time), TimeStep.transition(self._seen(places, time), reward, time_up=time >= 4)

    def _seen(self, places: Array, time: Array) -> PyTree:
        observation = self.probe.observation[places]
        active = {"left": jnp.array([True, False]) | (time < 1), "right": jnp.array([True])}
        return {"left": observation[:2], "right": observation[2:], "active": active}

    @property
    def observation_space(self) -> Space:
        """The probe's, per agent."""
        flags = lambda n: Box(low=0, high=1, shape=(n,), dtype=jnp.bool_)
        active = Dict(spaces={"left": flags(2), "right": flags(1)})
        return Dict(spaces=self._groups(self.probe.observation_space) | {"active": active})

    @property
    def action_space(self) -> Space:
        """The probe's, per agent."""
        return Dict(spaces=self._groups(self.probe.action_space))

    def _groups(self, space: Space) -> dict[str, Space]:
        return {"left": Stacked(space=space, n=2), "right": Stacked(space=space, n=1)}


@pytree
class InTurns(Environment):
    """Two agents, `first` and `second`, that act in turn, each in a probe of its own; who begins is drawn.

    An episode ends after five steps, by the time.
    """

    probe: Probe = number()

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start both."""
        key_places, key_begins = jax.random.split(key)
        places = jax.vmap(self.probe.reset)(jax.random.split(key_places, 2))[0]
        state = places, jax.random.bernoulli(key_begins), jnp.int32(0)
        return state, self._seen(*state[:2])

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step whose turn it is; a probe that ended begins anew."""
        places, second, time = state
        key_step, key_again = jax.random.split(key)
        turn = second.astype(jnp.int32)
        chosen = jax.tree.map(lambda x, y: jnp.where(second, y[0], x[0]), action["first"], action["second"])
        after, step = self.probe.step(key_step, places[turn], chosen)
        places = places.at[turn].set(jnp.where(step.done, self.probe.reset(key_again)[0], after))
        reward = {
            "first": jnp.where(second, 0.0, step.reward)[None],
            "second": jnp.where(second, step.reward, 0.0)[None],
        }
        state = places, ~second, time + 1
        return state, TimeStep.transition(self._seen(*state[:2]), reward, time_up=time + 1 >= 5)

    def _seen(self, places: Array, second: Array) -> PyTree:
        observation = self.probe.observation[places]
        turn = {"first": ~second[None], "second": second[None]}
        return {"first": observation[:1], "second": observation[1:], "turn": turn}

    @property
    def observation_space(self) -> Space:
        """The probe's, per agent."""
        flag = Box(low=0, high=1, shape=(1,), dtype=jnp.bool_)
        turn = Dict(spaces={"first": flag, "second": flag})
        return Dict(spaces=self._groups(self.probe.observation_space) | {"turn": turn})

    @property
    def action_space(self) -> Space:
        """The probe's, per agent."""
        return Dict(spaces=self._groups(self.probe.action_space))

    def _groups(self, space: Space) -> dict[str, Space]:
        return {name: Stacked(space=space, n=1) for name in ("first", "second")}


def check_meetings(algorithm: AlgorithmFactory, config: Any, env: Probe, state: PyTree, name: str) -> list[Check]:
    """Hold an algorithm to what must hold where features meet.

    Args:
      algorithm, config, name: as for `check_algorithm`.
      env: a probe.
      state: of its training on the probe.

    Raises:
      InputError: for the first thing that is wrong.
    """
    return [
        _check_counters(algorithm, config, env, state, name),
        _check_failed_seed(algorithm, config, env, state, name),
        *_check_groups(algorithm, config, Duo(probe=env), name),
        _check_every_step(algorithm, config, env, state, name),
        *[_check_turns(algorithm, config, env, length, name) for length in (1, 3)],
    ]


@partial(jax.jit, static_argnums=0)
def _steps(algorithm: AlgorithmFactory, config: Any, envs: Probe, states: PyTree) -> PyTree:
    """Return the states of several seeds after UPDATES updates, each in its own environment."""

    def some(env: Probe, state: PyTree) -> PyTree:
        trainer = make_trainer(algorithm, env, config)
        return jax.lax.fori_loop(0, UPDATES, lambda _, state: trainer.step(state)[0], state)

    return jax.vmap(some)(envs, states)


def _stack(trees: list[PyTree]) -> PyTree:
    return jax.tree.map(lambda *xs: jnp.stack(xs), *trees)


def _check_counters(algorithm: AlgorithmFactory, config: Any, env: Probe, state: PyTree, name: str) -> Check:
    """Go on from counters just below 2^31, three times beside one another: parameters move and stay finite."""
    config = dataclasses.replace(config, total_timesteps=HORIZON)

    def late(path: Any, leaf: Array) -> Array:
        last = jax.tree_util.keystr(path[-1:]).strip(".[]'\"") if path else ""
        counts = leaf.dtype == jnp.int32 and leaf.ndim == 0 and last in COUNTERS
        return jnp.int32(LIMIT - 1) if counts else leaf

    agent = jax.tree_util.tree_map_with_path(late, state.agent)
    envs = _stack([env] * 3)
    at_limit = _steps(algorithm, config, envs, _stack([state._replace(agent=agent)] * 3))
    beyond = _steps(algorithm, config, envs, at_limit)
    moved = False
    for path, (old, new) in _numbers_of(at_limit.agent, beyond.agent).items():
        if not np.isfinite(new).all():
            raise InputError(f"{name}: past 2^31 updates agent{path} is not finite")
        moved |= "replay" not in path and not np.array_equal(old, new)
    if not moved:
        raise InputError(f"{name}: past 2^31 updates nothing is learned any more")
    return Check("learns on past 2^31 updates")


def _check_failed_seed(algorithm: AlgorithmFactory, config: Any, env: Probe, state: PyTree, name: str) -> Check:
    """Of three seeds one gets rewards that are NaN: the others learn the same, to the bit."""
    broken = dataclasses.replace(env, reward=jnp.full_like(env.reward, jnp.nan))
    states = _stack([state] * 3)
    clean = host(_steps(algorithm, config, _stack([env, env, env]), states).agent)
    mixed = host(_steps(algorithm, config, _stack([env, broken, env]), states).agent)
    for seed in (0, 2):
        found = difference(*(jax.tree.map(lambda x, s=seed: x[s], agent) for agent in (clean, mixed)))
        if found is not None:
            raise InputError(f"{name}: a seed whose rewards are NaN changes another seed's agent{found}")
    return Check("a failed seed changes no other")


def _check_every_step(algorithm: AlgorithmFactory, config: Any, env: Probe, state: PyTree, name: str) -> Check:
    """The reward of every step of a rollout changes what is learned; what a replay draws is left to chance."""
    if hasattr(state.agent, "replay"):
        return Check("learns from every step", "not for a replay, which draws")
    trainer = make_trainer(algorithm, env, config)

    @jax.jit
    def learned(state: PyTree) -> PyTree:
        _, rollout = collect(trainer.algorithm, trainer.vector, state, jax.random.key(2), config.rollout_length)
        update = lambda reward: trainer.algorithm.update(
            state.agent, jax.random.key(3), rollout._replace(reward=reward)
        )[0]
        more = jnp.eye(config.rollout_length + 1)[:, :-1, None]  # one more at each step in turn, and nowhere
        return jax.vmap(update)(rollout.reward + more)

    agents = host(learned(state))
    of = lambda t: jax.tree.map(lambda x: x[t], agents)
    for t in range(config.rollout_length):
        if difference(of(t), of(-1)) is None:
            raise InputError(f"{name}: nothing is learned from step {t} of a rollout of {config.rollout_length}")
    return Check("learns from every step")


def _check_turns(algorithm: AlgorithmFactory, config: Any, probe: Probe, length: int, name: str) -> Check:
    """What an agent whose turn it is not would have done, and saw then, changes nothing."""
    what, env = f"in turns, rollouts of {length}", InTurns(probe=probe)
    try:
        config = dataclasses.replace(config, rollout_length=length)
        trainer = make_trainer(multi_agent, env, policies_for(env, algorithm, config))
    except InputError as error:
        return Check(what, f"refused: {error}")
    state = jax.jit(trainer.init)(jax.random.key(0))

    @jax.jit
    def after(state: PyTree) -> tuple[PyTree, PyTree]:
        state = jax.lax.fori_loop(0, UPDATES, lambda _, state: trainer.step(state)[0], state)
        _, rollout = collect(trainer.algorithm, trainer.vector, state, jax.random.key(2), length)
        other = rollout._replace(
            observation=_garbled(rollout.observation, _waits(rollout)),
            action=_garbled(rollout.action, _waits(rollout)),
        )
        update = lambda rollout: trainer.algorithm.update(state.agent, jax.random.key(3), rollout)[0]
        return update(rollout), update(other)

    found = difference(*map(host, after(state)))
    if found is not None:
        raise InputError(f"{name}: with rollouts of {length}, what an agent does off its turn changes agent{found}")
    return Check(what)


def _waits(rollout: Any) -> dict[str, Array]:
    """Return bool[T, B, 1] by agent: whose turn it is not."""
    return {name: ~turn for name, turn in rollout.observation["turn"].items()}


def _garbled(tree: PyTree, where: dict[str, Array]) -> PyTree:
    """Put other numbers into the arrays of groups, where bool[T, B, n]."""

    def one(x: Array, here: Array) -> Array:
        other = ~x if x.dtype == jnp.bool_ else (x + 1) % 2 if jnp.issubdtype(x.dtype, jnp.integer) else 0.5 - x
        return jnp.where(here.reshape(here.shape + (1,) * (x.ndim - here.ndim)), other, x)

    return tree | {name: jax.tree.map(lambda x, h=here: one(x, h), tree[name]) for name, here in where.items()}


def _check_groups(algorithm: AlgorithmFactory, config: Any, env: Duo, name: str) -> list[Check]:
    """Train both groups, then garble what who left did, start from the trained agent, and freeze it."""
    joint = policies_for(env, algorithm, config)
    try:
        trainer = make_trainer(multi_agent, env, joint)
    except InputError as error:
        return [Check("groups of agents", f"refused: {error}")]
    begin, step = jax.jit(trainer.init), jax.jit(trainer.step)
    state = begin(jax.random.key(0))
    for _ in range(UPDATES):
        state, _ = step(state)
    checks = [_check_leaving(trainer, config, state, name)]
    trained = state.agent["left"]
    if not hasattr(trained, "params"):
        return [*checks, Check("start and frozen", "not for an agent without a field params")]
    begun = _with(env, algorithm, config, config, agent=trained).init(jax.random.key(1)).agent["left"]
    if difference(host(begun.params), host(trained.params)) is not None:
        raise InputError(f"{name}: a policy that starts from a trained agent does not begin with its parameters")
    fresh = begin(jax.random.key(1)).agent["left"]
    if difference(host(begun.opt_state), host(fresh.opt_state)) is not None:
        raise InputError(f"{name}: a policy that starts from a trained agent does not begin its optimizer anew")
    checks.append(Check("starts from a trained agent with schedules that begin anew"))
    return [*checks, _check_frozen(trainer, algorithm, config, state, env, name)]


def _with(env: Duo, algorithm: AlgorithmFactory, config: Any, shared: Any, **settings: Any) -> Trainer:
    """Return the trainer in which `left` has these settings."""
    policy = Policy(algorithm=algorithm, config=config, groups=("left",), **settings)
    return make_trainer(multi_agent, env, policies_for(env, algorithm, shared, left=policy))


def _check_leaving(trainer: Trainer, config: Any, state: PyTree, name: str) -> Check:
    """What an agent sees, does and gets after it left changes no bit of what its policy learns."""
    length = config.rollout_length

    @jax.jit
    def both(state: PyTree) -> tuple[PyTree, PyTree]:
        _, rollout = collect(trainer.algorithm, trainer.vector, state, jax.random.key(2), length)  # type: ignore[attr-defined]
        gone = {"left": ~rollout.observation["active"]["left"]}
        other = rollout._replace(
            observation=_garbled(rollout.observation, gone),
            next_observation=_garbled(rollout.next_observation, gone),
            action=_garbled(rollout.action, gone),
            reward=_garbled(rollout.reward, gone),
        )
        update = lambda rollout: trainer.algorithm.update(state.agent, jax.random.key(3), rollout)[0]
        return update(rollout), update(other)

    plain, garbled = (agent["left"] for agent in both(state))
    parts = [agent._replace(replay=()) if hasattr(agent, "replay") else agent for agent in (plain, garbled)]
    found = difference(*map(host, parts))
    if found is not None:
        raise InputError(f"{name}: what an agent does after it left changes agent{found}")
    return Check("what agents do after they left changes nothing")


def _check_frozen(
    trainer: Trainer, algorithm: AlgorithmFactory, config: Any, state: PyTree, env: Duo, name: str
) -> Check:
    """A frozen policy acts as it did when it was trained, in a run of another length."""
    trained = dataclasses.replace(
        config, num_envs=2 * config.num_envs, total_timesteps=2.0 * config.total_timesteps
    )  # as two agents in each environment count
    longer = dataclasses.replace(config, total_timesteps=100.0 * config.total_timesteps)
    frozen = _with(env, algorithm, trained, longer, frozen=True, agent=state.agent["left"])
    agent = frozen.init(jax.random.key(4)).agent | {"right": state.agent["right"]}
    carry = trainer.algorithm.initial_carry(config.num_envs)
    for explore in (False, True):
        did, does = (
            of.algorithm.act(known, carry, jax.random.key(5), state.observation, explore)[0]["left"]
            for of, known in ((trainer, state.agent), (frozen, agent))
        )
        if difference(host(did), host(does)) is not None:
            raise InputError(f"{name}: frozen in another run, a policy does not act as it did (explore={explore})")
    return Check("frozen in another run it acts as it did, to the bit")


def _numbers_of(one: PyTree, other: PyTree) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the pairs of floating leaves by path."""
    pairs = zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True)
    floats = ((path, x, y) for (path, x), y in pairs if jnp.issubdtype(x.dtype, jnp.inexact))
    return {jax.tree_util.keystr(path): (np.asarray(x), np.asarray(y)) for path, x, y in floats}
