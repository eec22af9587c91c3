"""Self-play: one policy for both sides of a symmetric game, against a pool of its past policies.

The pool is data of the agent. Its first place is the policy at the start; place s is filled when s of P parts of the
run are over, so that at the end it holds the whole run. Places that are not filled yet hold the newest self.
Environment e always plays against place e mod P, and every second round of places the learner is on the other side: so
each self plays as many environments on either side, and acting costs two policies whatever P is.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import agent_groups
from purerl.errors import InputError
from purerl.extensions.groups.joint import SHARED, GroupsConfig, MultiAgentConfig, Policy, multi_agent
from purerl.fields import validate
from purerl.functional.counters import increment
from purerl.networks.actor_critic import PolicyAgent
from purerl.spaces import Dict, form
from purerl.types import (
    Algorithm,
    AlgorithmFactory,
    Array,
    Config,
    EnvironmentSpec,
    Key,
    Metrics,
    PyTree,
    Rollout,
    number,
    pytree,
    static,
)
from purerl.xla.trees import where

SELF = "self"  # the group that a side is to the policy


@pytree
class SelfPlayConfig(GroupsConfig):
    """Settings of self-play."""

    algorithm: Any = static(default=None, doc="(spec, config) -> Algorithm, a policy-gradient one")
    policy: Any = number(default=None, doc="its settings")
    num_selves: int = static(default=8, doc="past policies that are kept, P", at_least=1)


class SelfPlayAgent(NamedTuple):
    """The learner and its past policies."""

    learner: PyTree
    pool: PyTree  # [P, ...], the parts of an agent that act
    kept_at: Array  # i32[P], the updates that each had done
    newest: Array  # i32[], the last place of the pool that is filled
    num_updates: Array  # i32[]

    @property
    def copies(self) -> dict[str, str]:
        """The fields that an agent's file leaves out: in the file, each past policy is the learner."""
        return {"pool": "learner"}


def self_play_config(
    algorithm: AlgorithmFactory, config: Config, num_selves: int, kind: type[SelfPlayConfig] = SelfPlayConfig
) -> SelfPlayConfig:
    """Return the settings of self-play, or of a `kind` of it, by an algorithm with its settings."""
    shared = {name: getattr(config, name) for name in SHARED}
    return kind(**shared, algorithm=algorithm, policy=config, num_selves=num_selves)


def self_play(spec: EnvironmentSpec, config: SelfPlayConfig) -> Algorithm:
    """Return the algorithm that learns both sides of a game against itself.

    Raises:
      InputError: if the game does not have two groups with equal spaces, there are too few environments for the pool,
        or the algorithm is not a policy-gradient one.
    """
    validate(config, "self-play")
    sides, num = _sides(spec), config.num_selves
    _check_envs(config.num_envs, num)
    inner = multi_agent(_of_one_side(spec, sides), of_groups(config, (SELF,)))

    def init(key: Key) -> SelfPlayAgent:
        learner = inner.init(key)
        return alone(learner, acting(learner), config)

    def initial_carry(num_envs: int) -> dict[str, PyTree]:
        return {"learner": inner.initial_carry(num_envs), "selves": inner.initial_carry(num_envs)}

    def act(agent: SelfPlayAgent, carry: dict[str, PyTree], key: Key, observation: PyTree, explore: bool):
        key_learner, key_selves = jax.random.split(key)
        first = plays_first(jax.tree.leaves(observation)[0].shape[0], num)
        action, learner_carry, extras = inner.act(
            agent.learner, carry["learner"], key_learner, side(observation, first), explore
        )
        keys, seen = jax.random.split(key_selves, num), side(observation, ~first)
        play = jax.vmap(lambda agent, carry, key, seen: inner.act(agent, carry, key, seen, explore)[:2])
        replies = play(agent.pool, deal(carry["selves"], num), keys, deal(seen, num))
        reply, selves_carry = collect(replies, first.shape[0])
        actions = {sides[0]: where(first, action, reply)[SELF], sides[1]: where(~first, action, reply)[SELF]}
        return actions, {"learner": learner_carry, "selves": selves_carry}, extras

    def side(tree: PyTree, first: Array | np.ndarray, axis: int = 0) -> PyTree:
        """Return the observation, action or reward of the learner's side (`first`), or of the other side."""
        values = {SELF: where(first, tree[sides[0]], tree[sides[1]], axis)}
        return values | {flag: side(tree[flag], first, axis) for flag in agent_groups.FLAGS if flag in tree}

    def update(agent: SelfPlayAgent, key: Key, rollout: Rollout) -> tuple[SelfPlayAgent, Metrics]:
        first = plays_first(config.num_envs, num)
        names = ("observation", "next_observation", "action", "reward")
        of_learner = {name: side(getattr(rollout, name), first, 1) for name in names}
        learner, metrics = inner.update(
            agent.learner, key, rollout._replace(**of_learner, carry=rollout.carry["learner"])
        )
        reward = side(rollout.reward, ~first, 1)[SELF]
        metrics |= {"reward_of_learner": jnp.mean(of_learner["reward"][SELF]), "reward_of_others": jnp.mean(reward)}
        return learned(agent, learner, acting(learner), config), metrics

    return Algorithm(init=init, initial_carry=initial_carry, act=act, update=update)


def alone(learner: PyTree, acts: PyTree, config: SelfPlayConfig) -> SelfPlayAgent:
    """Return the agent before its first update; `acts` is the part of the learner that acts."""
    pool = jax.tree.map(lambda x: jnp.broadcast_to(x, (config.num_selves, *x.shape)), acts)
    kept_at = jnp.zeros(config.num_selves, jnp.int32)
    return SelfPlayAgent(learner=learner, pool=pool, kept_at=kept_at, newest=jnp.int32(0), num_updates=jnp.int32(0))


def learned(agent: SelfPlayAgent, learner: PyTree, acts: PyTree, config: SelfPlayConfig) -> SelfPlayAgent:
    """Return the agent after an update of its learner; at the end of an interval, the pool keeps a snapshot."""
    num, num_updates = config.num_selves, increment(agent.num_updates)
    parts = num_updates.astype(jnp.float32) * config.steps_per_update * num / config.total_timesteps
    newest = jnp.minimum(parts.astype(jnp.int32), num - 1)
    fill = (jnp.arange(num) >= newest) & (newest > agent.newest)
    pool = where(fill, jax.tree.map(lambda x: x[None], acts), agent.pool)
    kept_at = jnp.where(fill, num_updates, agent.kept_at)
    return SelfPlayAgent(learner=learner, pool=pool, kept_at=kept_at, newest=newest, num_updates=num_updates)


def of_groups(config: SelfPlayConfig, names: tuple[str, ...]) -> MultiAgentConfig:
    """Return the config in which groups act by self-play policies of this kind."""
    shared = {name: getattr(config, name) for name in SHARED}
    policies = {name: Policy(algorithm=config.algorithm, config=config.policy, groups=(name,)) for name in names}
    return MultiAgentConfig(**shared, policies=policies)


def acting(learner: dict[str, PyTree]) -> dict[str, PyTree]:
    """Return the part of an agent that acts: everything except its optimizer's state.

    Raises:
      InputError: if it does not belong to a policy-gradient algorithm.
    """
    agent = learner[SELF]
    if not isinstance(agent, PolicyAgent):
        raise InputError("self-play needs a policy-gradient algorithm, such as ppo, a2c or impala")
    return {SELF: agent._replace(opt_state=(), return_scale=None, value_statistics=None)}


def plays_first(num_envs: int, num_selves: int) -> np.ndarray:
    """Return bool[num_envs]: in which environments the learner is the first side."""
    return np.arange(num_envs) // num_selves % 2 == 0


def deal(tree: PyTree, num: int) -> PyTree:
    """Return [B, ...] as [num, ceil(B / num), ...]: environment e goes to e mod num; missing rows repeat others."""

    def one(x: Array) -> Array:
        rows = -(-x.shape[0] // num)
        full = x[np.arange(rows * num) % x.shape[0]]
        return jnp.swapaxes(full.reshape(rows, num, *x.shape[1:]), 0, 1)

    return jax.tree.map(one, tree)


def collect(tree: PyTree, count: int) -> PyTree:
    """Undo `deal` for `count` environments."""
    return jax.tree.map(lambda x: jax.lax.collapse(jnp.swapaxes(x, 0, 1), 0, 2)[:count], tree)


def _check_envs(num_envs: int, num_selves: int) -> None:
    if num_envs < 2 * num_selves:
        raise InputError(
            f"{num_selves} past policies on both sides need num_envs {2 * num_selves} at least; it is {num_envs}"
        )


def _sides(spec: EnvironmentSpec) -> tuple[str, str]:
    sizes = agent_groups.sizes(spec)
    if len(sizes) != 2:
        raise InputError(f"self-play needs a game of two groups of agents; this one has {len(sizes)}")
    agent_groups.check("the environment", spec)
    first, second = sizes
    assert isinstance(spec.observation_space, Dict) and isinstance(spec.action_space, Dict)
    seen, done = spec.observation_space.spaces, spec.action_space.spaces
    if form(seen[first]) != form(seen[second]) or repr(done[first]) != repr(done[second]):
        raise InputError(
            f"self-play needs a symmetric game: '{first}' and '{second}' have different observation or action spaces"
        )
    return first, second


def _of_one_side(spec: EnvironmentSpec, sides: tuple[str, str]) -> EnvironmentSpec:
    assert isinstance(spec.observation_space, Dict) and isinstance(spec.action_space, Dict)
    seen = {SELF: spec.observation_space.spaces[sides[0]]}
    for flag in agent_groups.FLAGS:
        if isinstance(flags := spec.observation_space.spaces.get(flag), Dict):
            seen[flag] = Dict(spaces={SELF: flags.spaces[sides[0]]})
    return EnvironmentSpec(Dict(spaces=seen), Dict(spaces={SELF: spec.action_space.spaces[sides[0]]}))
