"""JaxMARL: cooperative and competitive games of several agents, as `jaxmarl/NAME`."""

import functools
import importlib
import itertools
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.adapters import common
from purerl.envs.adapters.known import LEFT_OUT
from purerl.errors import InputError, unknown
from purerl.spaces import Box, Dict, Discrete, Space, Stacked
from purerl.types import Array, Environment, Key, PyTree, TimeStep, number, pytree, static

LIMITS = (("max_steps",), ("episode_length",), ("num_inner_steps", "num_outer_steps"))
# what the suite's environments call their time limit, or the numbers whose product it is
SMAX = ("SMAX", "HeuristicEnemySMAX")
REWARDED_TO_THE_END = SMAX  # a unit that fell shares what its team is paid afterwards
ENDED_BY_TIME_ALONE = ("coin_game",)  # and its limit cannot be taken out
SHAPED = ("overcooked", "overcooked_v2")  # random play delivers too few soups to learn only from them
BRAX = ("ant_", "halfcheetah_", "hopper_", "humanoid_", "walker2d_")
_NEVER = np.iinfo(np.int32).max
NAMED = {  # arguments that the suite keeps tables of: (module, table) by id and argument
    ("SMAX", "scenario"): ("jaxmarl.environments.smax.smax_env", "MAP_NAME_TO_SCENARIO"),
    ("HeuristicEnemySMAX", "scenario"): ("jaxmarl.environments.smax.smax_env", "MAP_NAME_TO_SCENARIO"),
    ("overcooked", "layout"): ("jaxmarl.environments.overcooked", "overcooked_layouts"),
}


class JaxMARLState(NamedTuple):
    """The suite's state, and what the suite does not store."""

    suite: PyTree
    active: dict[str, Array]  # {group: bool[n]}, who is still in the game


class Layout(NamedTuple):
    """The assignment of the suite's agents to groups."""

    groups: dict[str, tuple[Any, ...]]  # the suite's names of the agents of each group
    observations: Mapping[str, Space]  # spaces of one agent
    actions: Mapping[str, Space]
    masked: bool  # whether the suite marks the legal actions
    world: jax.ShapeDtypeStruct | None  # the suite's own global state
    limit: int | None


@pytree
class JaxMARLEnvironment(Environment):
    """An environment of JaxMARL, stepped by `step_env`, without its automatic reset.

    Agents of one kind, by the suite's names and with equal spaces, are a group: `adversary`, `agent`. A group's
    observation holds the legal actions as `action_mask`. An agent that is done early has left the game, except in SMAX:
    there it can only stand still, and gets its team's reward. The suite only reports that an episode is over. The
    episode counts as truncated if it would continue without the time limit of the environment (`max_steps`), and
    otherwise as terminated, even if it ends on the step of the limit. Observations of bytes become float32.

    Overcooked also reports rewards for steps toward a soup: `shaped_reward` times these is added, agent by agent. Train
    with 1, continue with `--start RUN --env.shaped_reward 0`, and evaluate with 0.

    JaxMARL's storm family is not supported: its observations and rewards are an array or a tuple of all agents, not
    dicts by agent, and at its time limit it returns the first observation of the next game. The environments of
    JaxRobotarium, whose simulator is not packaged, and SMAX against a trained enemy are not supported either.

    Source: Rutherford et al. (2024), arXiv:2311.10090.
    """

    name: str = static(doc="JaxMARL's id")
    options: Any = static(default=(), doc="arguments of its constructor")
    global_state: bool = static(default=False, doc="give a critic all observations if the suite has no global state")
    shaped_reward: float = number(default=0.0, doc="weight of Overcooked's shaped rewards")

    def reset(self, key: Key) -> tuple[JaxMARLState, dict[str, PyTree]]:
        """Start an episode."""
        with common.standard_promotion():
            observation, suite = common.settle(self._env.reset(key))
            active = {group: jnp.ones(len(agents), jnp.bool_) for group, agents in self._layout.groups.items()}
            state = JaxMARLState(suite=suite, active=active)
            return state, self._observe(state, observation)

    def step(self, key: Key, state: JaxMARLState, action: dict[str, Array]) -> tuple[JaxMARLState, TimeStep]:
        """Advance by the actions of all agents."""
        layout = self._layout
        chosen = {a: action[group][i] for group, agents in layout.groups.items() for i, a in enumerate(agents)}
        with common.standard_promotion():
            *stepped, told = self._env.step_env(key, state.suite, chosen)
            observation, suite, rewards, dones = common.settle(tuple(stepped))
            over = common.flag(dones["__all__"])
            active = state.active
            if self.name not in REWARDED_TO_THE_END:
                done = {group: self._stack(group, dones, common.flag) for group in layout.groups}
                active = {group: active[group] & (over | ~done[group]) for group in layout.groups}
            reward = {group: self._stack(group, rewards, common.scalar) for group in layout.groups}
            if self.name in SHAPED:
                extra = {group: self._stack(group, told["shaped_reward"], common.scalar) for group in layout.groups}
                reward = {group: reward[group] + self.shaped_reward * extra[group] for group in layout.groups}
            ended = over if layout.limit is None else self._ended(key, state.suite, chosen, suite, told)
            state = JaxMARLState(suite=suite, active=active)
            observation = self._observe(state, observation)
            return state, TimeStep.transition(observation, reward, terminated=over & ended, time_up=over)

    def _ended(self, key: Key, before: PyTree, chosen: dict, after: PyTree, told: Mapping[str, object]) -> Array:
        """Return whether an episode would be over without its time limit, bool[].

        Args:
          key: the key of the step.
          before: the suite's state before the step.
          chosen: its actions.
          after: its state after the step.
          told: its info of the step.
        """
        if self.name in ENDED_BY_TIME_ALONE:
            return jnp.zeros((), jnp.bool_)
        if "truncation" in told:  # brax
            return ~common.flag(told["truncation"])
        endless = _endless(self.name, self.options)
        if self.name in SMAX:
            return common.flag(endless.is_terminal(after))
        return common.flag(endless.step_env(key, before, chosen)[3]["__all__"])  # XLA drops the rest of the step

    def _stack(self, group: str, by_agent: dict, convert: Any) -> Array:
        return jnp.stack([convert(by_agent[agent]) for agent in self._layout.groups[group]])

    def _observe(self, state: JaxMARLState, observation: dict) -> dict[str, PyTree]:
        layout, seen = self._layout, {}
        for group in layout.groups:
            seen[group] = self._stack(group, observation, _as_numbers)
        if layout.world is not None:
            seen["global_state"] = observation["world_state"]
        elif self.global_state:
            seen["global_state"] = jnp.concatenate([seen[group].reshape(-1) for group in layout.groups])
        if layout.masked:
            legal = self._env.get_avail_actions(state.suite)
            for group in layout.groups:
                mask = self._stack(group, legal, lambda x: jnp.asarray(x) > 0)
                seen[group] = {"observation": seen[group], "action_mask": mask}
        return seen | {"active": state.active}

    @property
    def _env(self) -> Any:
        return _build(self.name, self.options)

    @property
    def _layout(self) -> Layout:
        return _layout(self.name, self.options)

    @property
    def observation_space(self) -> Dict:
        """The suite's observation space for each agent, with `action_mask` if it reports the legal actions."""
        layout, spaces = self._layout, {}
        for group, agents in layout.groups.items():
            part, n = layout.observations[group], len(agents)
            if layout.masked:
                flags = Box(low=0, high=1, shape=(layout.actions[group].n,), dtype=jnp.bool_)  # type: ignore[attr-defined]
                part = Dict(spaces={"observation": part, "action_mask": flags})
            spaces[group] = Stacked(space=part, n=n)
        if layout.world is not None:
            spaces["global_state"] = common.box(layout.world)
        elif self.global_state:
            size = sum(layout.observations[group].size * len(agents) for group, agents in layout.groups.items())
            spaces["global_state"] = Box(low=-math.inf, high=math.inf, shape=(size,))
        flag = lambda n: Box(low=0, high=1, shape=(n,), dtype=jnp.bool_)
        spaces["active"] = Dict(spaces={group: flag(len(agents)) for group, agents in layout.groups.items()})
        return Dict(spaces=spaces)

    @property
    def action_space(self) -> Dict:
        """The suite's action space for each agent."""
        layout = self._layout
        return Dict(spaces={g: Stacked(space=layout.actions[g], n=len(agents)) for g, agents in layout.groups.items()})


def make(name: str, **parameters: Any) -> JaxMARLEnvironment:
    """Return an environment of JaxMARL.

    Args:
      name: JaxMARL's id, such as "MPE_simple_spread_v3".
      **parameters: `global_state`, `shaped_reward`, and arguments of the suite's constructor, such as `max_steps`
        (static). A map of SMAX and a kitchen of Overcooked are given by the suite's names: `scenario="3m"`,
        `layout="cramped_room"`.

    Raises:
      InputError: for an unknown name or one that cannot be made, in the suite's words.
    """
    what = f"jaxmarl/{name}"
    common.check_name("jaxmarl", name, names())
    if "shaped_reward" in parameters and name not in SHAPED:
        raise InputError(f"{what} has no shaped rewards; {' and '.join(SHAPED)} do")
    ours = {field: parameters.pop(field) for field in ("global_state", "shaped_reward") if field in parameters}
    env = JaxMARLEnvironment(name=name, options=common.freeze(what, parameters), **ours)
    common.build(what, lambda: _build(name, env.options))
    _layout(name, env.options)
    return env


def names() -> list[str]:
    """Return JaxMARL's ids, without those in `known.LEFT_OUT`, which gives the reasons."""
    return sorted(name for name in _import().registered_envs if not name.startswith(tuple(LEFT_OUT["jaxmarl"])))


def _import() -> ModuleType:
    with common.building():  # importing JaxMARL makes arrays, and so starts JAX's backend
        import jaxmarl  # pyright: ignore[reportMissingImports]
    return jaxmarl


@functools.cache
def _build(name: str, options: common.Options) -> Any:
    return _construct(name, options)


@functools.cache
def _endless(name: str, options: common.Options) -> Any:
    """Return the environment with its time limit taken out."""
    env = _construct(name, options)
    for owner in (env, vars(env).get("_env")):  # SMAX with an enemy has the game inside
        for limit in itertools.chain(*LIMITS):
            if owner is not None and limit in vars(owner):
                setattr(owner, limit, _NEVER)
    return env


def _construct(name: str, options: common.Options) -> Any:
    with common.building():
        given = common.thaw(options)
        if name.startswith(BRAX):
            given.setdefault("auto_reset", False)  # the last observation belongs to the episode that ends
        for (of, argument), (module, table) in NAMED.items():
            if of == name and isinstance(wanted := given.get(argument), str):
                known = getattr(importlib.import_module(module), table)
                if wanted not in known:
                    raise unknown(f"{argument} of jaxmarl/{name}", wanted, known, limit=20)
                given[argument] = known[wanted]
        return _import().make(name, **given)


@functools.cache
def _layout(name: str, options: common.Options) -> Layout:
    env = _build(name, options)
    with common.building():
        observation, state = jax.eval_shape(env.reset, jax.random.key(0))
        if not isinstance(observation, dict):
            raise InputError(f"jaxmarl/{name} does not observe by agent")
        actions = {agent: _space(env.action_space(agent)) for agent in env.agents}
        members: dict[Any, list[Any]] = {}
        for agent in env.agents:
            struct = observation[agent]
            members.setdefault((_kind(agent), struct.shape, repr(actions[agent])), []).append(agent)
        groups: dict[str, tuple[Any, ...]] = {}
        for (kind, *_), agents in members.items():
            again = sum(group.partition("_")[0] == kind for group in groups)
            groups[f"{kind}_{again + 1}" if again else kind] = tuple(agents)
        groups = dict(sorted(groups.items()))
        masked = all(isinstance(space, Discrete) for space in actions.values()) and _tells_legal(env, state)
        known = [names for names in LIMITS if all(hasattr(env, name) for name in names)]
        limit = math.prod(int(getattr(env, name)) for name in known[0]) if known else None
        seen = {group: common.box(jax.eval_shape(_as_numbers, observation[a[0]])) for group, a in groups.items()}
        acts = {group: actions[agents[0]] for group, agents in groups.items()}
        return Layout(
            groups=groups,
            observations=seen,
            actions=acts,
            masked=masked,
            world=observation.get("world_state"),
            limit=limit,
        )


def _kind(agent: PyTree) -> str:
    """Return an agent's name without its number: agent_0 -> agent."""
    return str(agent).rstrip("0123456789").rstrip("_") or "agent"


def _tells_legal(env: Any, state: PyTree) -> bool:
    try:
        return isinstance(jax.eval_shape(env.get_avail_actions, state), dict)
    except NotImplementedError:
        return False


def _as_numbers(x: object) -> Array:
    x = jnp.asarray(x)
    return x.astype(jnp.float32) if x.dtype == jnp.uint8 else x


def _space(space: Any) -> Space:
    if hasattr(space, "n"):
        return Discrete(n=int(space.n))
    struct = jax.ShapeDtypeStruct(tuple(space.shape), jnp.float32)
    return common.box(struct, np.asarray(space.low), np.asarray(space.high))
