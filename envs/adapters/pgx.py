"""pgx: board and card games, as `pgx/NAME`, against a given opponent or turn by turn in self-play."""

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.adapters import boards, common
from purerl.errors import InputError, unknown
from purerl.fields import validate
from purerl.spaces import Box, Dict, Discrete, Space, Stacked
from purerl.types import Array, Environment, Key, PyTree, TimeStep, number, pytree, static

Opponent = Callable[[PyTree, Key, dict[str, Array]], Array]  # (parameters, key, observation) -> action, int32[]
AGENT = 0  # pgx samples the first player, so the agent may always be the same player


def random_opponent(parameters: PyTree, key: Key, observation: dict[str, Array]) -> Array:
    """Sample a legal action uniformly."""
    logits = jnp.where(observation["action_mask"], 0.0, -jnp.inf)
    return jax.random.categorical(key, logits).astype(jnp.int32)


class _Game(Environment):
    """The display of a game, which both forms share."""

    name: str
    options: Any

    @property
    def has_board(self) -> bool:
        """Whether `render_text` draws a board, which shows what both players know."""
        return self.name in boards.GAMES

    def render_text(self, state: common.Timed) -> str:
        """Return the board as text: X for player 0, who is the agent against an opponent, and O for the other."""
        if not self.has_board:
            return super().render_text(state)
        planes = np.asarray(_build(self.name, self.options).env._observe(state.suite, jnp.int32(0)))
        return boards.text(self.name, planes[..., 0] + 2 * planes[..., 1])

    @property
    def side_texts(self) -> tuple[str, str]:
        """The marks of player 0 and of player 1 on the board."""
        return boards.MARKS[1], boards.MARKS[2]

    def action_text(self, action: int) -> str:
        """Return the board's name of a move."""
        if not self.has_board:
            return super().action_text(action)
        rows, columns = _build(self.name, self.options).spaces["observation"].struct.shape[:2]
        return boards.move(self.name, action, columns, rows * columns)


@pytree
class PgxEnvironment(_Game):
    """A pgx game in which `opponent` plays the other seats; a step lasts until the agent's next turn.

    Observation: {"observation": pgx's observation of the agent, "action_mask": bool[n], the legal actions}; without the
    mask in pgx's MinAtar, where every action is legal. The reward is the agent's, summed over the replies of the other
    seats. An illegal action loses the game.

    Source: Koyamada et al. (2023), arXiv:2303.17503.
    """

    name: str = static(doc="pgx's id")
    options: Any = static(default=(), doc="arguments of its constructor")
    opponent: Any = static(default=random_opponent, doc="(parameters, key, observation) -> action of the other seats")
    opponent_parameters: Any = number(default=(), doc="parameters of the opponent's function, such as network weights")
    time_limit: Any = number(default=None, doc="steps of the agent after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[common.Timed, PyTree]:
        """Start a game; if another seat begins, it moves. A game that is already over is replaced by another."""
        env = _build(self.name, self.options).env

        def start(key: Key) -> PyTree:
            key_start, key_others = jax.random.split(key)
            state = common.settle(env.init(key_start))
            return self._others_move(key_others, state, state.rewards)[0]

        def again(carry: tuple[Key, PyTree]) -> tuple[Key, PyTree]:
            key = jax.random.split(carry[0], 1)[0]
            return key, start(key)

        with common.standard_promotion():
            state = start(key)
            if env.num_players > 2:  # with two, one move cannot end a game
                state = jax.lax.while_loop(lambda carry: carry[1].terminated, again, (key, state))[1]
            return common.Timed(state, jnp.int32(0)), self._observe(state, AGENT)

    def step(self, key: Key, state: common.Timed, action: Array) -> tuple[common.Timed, TimeStep]:
        """Make the agent's move and then the other seats' moves, until it is the agent's turn or the game is over."""
        key_step, key_others = jax.random.split(key)
        time = state.time + 1
        with common.standard_promotion():
            after = common.settle(_build(self.name, self.options).env.step(state.suite, action, key_step))
            after, rewards = self._others_move(key_others, after, after.rewards)
            observation = self._observe(after, AGENT)
        return common.Timed(after, time), _time_step(self, observation, rewards[AGENT], after, time)

    def for_self_play(self) -> "PgxSelfPlay":
        """Return the game turn by turn, without an opponent."""
        if _build(self.name, self.options).env.num_players == 1:
            raise InputError(f"pgx/{self.name} is a single-player game: there is no other side for self-play")
        return PgxSelfPlay(name=self.name, options=self.options, time_limit=self.time_limit)

    def _others_move(self, key: Key, state: PyTree, rewards: Array) -> tuple[PyTree, Array]:
        """Return (state, rewards) after the others' moves."""
        env = _build(self.name, self.options).env
        if env.num_players == 1:
            return state, rewards

        def others_turn(carry: tuple) -> Array:
            _, state, _ = carry
            return ~state.terminated & (state.current_player != AGENT)

        def move(carry: tuple) -> tuple:
            key, state, rewards = carry
            key, key_act, key_step = jax.random.split(key, 3)
            action = self.opponent(self.opponent_parameters, key_act, self._observe(state, state.current_player))
            state = common.settle(env.step(state, action, key_step))
            return key, state, rewards + state.rewards

        return jax.lax.while_loop(others_turn, move, (key, state, rewards))[1:]

    def _observe(self, state: PyTree, player: Any) -> PyTree:
        built = _build(self.name, self.options)
        observation = common.settle(built.env._observe(state, player))
        return {"observation": observation, "action_mask": state.legal_action_mask} if built.masked else observation

    @property
    def observation_space(self) -> Space:
        """A dict of pgx's array and the mask."""
        built = _build(self.name, self.options)
        return Dict(spaces=built.spaces) if built.masked else built.spaces["observation"]

    @property
    def action_space(self) -> Discrete:
        """All moves, legal or not."""
        return Discrete(n=_build(self.name, self.options).num_actions)


@pytree
class PgxSelfPlay(_Game):
    """A pgx game turn by turn: every step is a move of the player whose turn it is.

    Every seat is a group of one agent, "player_0", "player_1", ...: {"observation": pgx's observation of that seat,
    "action_mask": bool[n], the legal actions in its turn, and all actions when it waits}. "turn" marks the seat whose
    action counts; actions of the other seats are ignored. Rewards are pgx's, at every move for all.

    Source: Koyamada et al. (2023), arXiv:2303.17503.
    """

    name: str = static(doc="pgx's id")
    options: Any = static(default=(), doc="arguments of its constructor")
    time_limit: Any = number(default=None, doc="moves after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[common.Timed, PyTree]:
        """Start a game."""
        with common.standard_promotion():
            state = common.settle(_build(self.name, self.options).env.init(key))
            return common.Timed(state, jnp.int32(0)), self._observe(state)

    def step(self, key: Key, state: common.Timed, action: dict[str, Array]) -> tuple[common.Timed, TimeStep]:
        """Make the move of the player whose turn it is."""
        time, actions = state.time + 1, jnp.concatenate([action[seat] for seat in self._seats])
        with common.standard_promotion():
            move = actions[state.suite.current_player]
            after = common.settle(_build(self.name, self.options).env.step(state.suite, move, key))
            observation = self._observe(after)
        rewards = {seat: common.scalar(after.rewards[i])[None] for i, seat in enumerate(self._seats)}
        step = _time_step(self, observation, after.rewards[0], after, time)
        return common.Timed(after, time), step._replace(reward=rewards)

    def _observe(self, state: PyTree) -> PyTree:
        env, seen, turn = _build(self.name, self.options).env, {}, {}
        for i, seat in enumerate(self._seats):
            turn[seat] = common.flag(state.current_player == i)[None]
            mask = jnp.where(turn[seat], state.legal_action_mask, True)
            seen[seat] = {
                "observation": common.settle(env._observe(state, jnp.int32(i)))[None],
                "action_mask": mask[None],
            }
        return seen | {"turn": turn}

    @property
    def _seats(self) -> list[str]:
        return [f"player_{i}" for i in range(_build(self.name, self.options).env.num_players)]

    @property
    def observation_space(self) -> Dict:
        """The observation of each seat, and whose turn it is."""
        part = Dict(spaces=_build(self.name, self.options).spaces)
        turn = Dict(spaces={seat: Box(low=0, high=1, shape=(1,), dtype=jnp.bool_) for seat in self._seats})
        return Dict(spaces={seat: Stacked(space=part, n=1) for seat in self._seats} | {"turn": turn})

    @property
    def action_space(self) -> Dict:
        """All moves, legal or not."""
        part = Discrete(n=_build(self.name, self.options).num_actions)
        return Dict(spaces={seat: Stacked(space=part, n=1) for seat in self._seats})


def _time_step(env: Any, observation: PyTree, reward: Array, state: PyTree, time: Array) -> TimeStep:
    terminated = common.flag(state.terminated)
    late = jnp.bool_(False) if env.time_limit is None else common.flag(time >= env.time_limit)
    time_up = common.flag(state.truncated) | late
    return TimeStep.transition(observation, common.scalar(reward), terminated=terminated, time_up=time_up)


class PgxSetup(NamedTuple):
    """A pgx object and the data derived from it."""

    env: Any
    masked: bool
    num_actions: int
    spaces: dict[str, Space]


def make(name: str, **parameters: Any) -> PgxEnvironment | PgxSelfPlay:
    """Return a game of pgx.

    Args:
      name: pgx's id, such as "connect_four".
      **parameters: `opponent`: "random" (the default), "self" for turn-based self-play, or a function
        (parameters, key, observation) -> action; `opponent_parameters`: a pytree for it; `time_limit`: None, but 2500
        for pgx's MinAtar, whose episodes need not end; and arguments of the game's constructor (static).

    Raises:
      InputError: for an unknown name or parameter, naming the nearest.
    """
    what = f"pgx/{name}"
    common.check_name("pgx", name, names())
    sized = name.startswith("go_")
    default = common.build(what, lambda: _build(name, (("size", int(name.split("x")[1])),) if sized else ())).env
    arguments = set(inspect.signature(type(default).__init__).parameters) - {"self", "args", "kwargs", "size"}
    arguments |= {"size"} if name == "hex" else set()
    opponent = parameters.pop("opponent", "random")
    several = {"opponent", "opponent_parameters"} if default.num_players > 1 and opponent != "self" else set()
    common.check_parameters(what, parameters, arguments | several | {"time_limit"})
    options = {k: v for k, v in parameters.items() if k in arguments}
    options = common.freeze(what, options | ({"size": int(name.split("x")[1])} if sized else {}))
    built = common.build(what, lambda: _build(name, options))
    time_limit = parameters.get("time_limit", None if built.masked else 2500)
    if opponent == "self":
        if default.num_players == 1:
            raise InputError(f"{what} is a single-player game: opponent='self' needs several players")
        env = PgxSelfPlay(name=name, options=options, time_limit=time_limit)
    else:
        env = PgxEnvironment(
            name=name,
            options=options,
            opponent=_opponent(opponent),
            opponent_parameters=parameters.get("opponent_parameters", ()),
            time_limit=time_limit,
        )
    validate(env, what)
    return env


def from_pgx(env: Any, opponent: Any = "random", time_limit: int | None = None) -> PgxEnvironment | PgxSelfPlay:
    """Return a game object of pgx, such as a subclass of `pgx.Env`, as an environment.

    Args:
      env: the game.
      opponent: as for `make`: "random", "self", or a function (parameters, key, observation) -> action.
      time_limit: steps after which an episode is truncated; None: no limit.

    Returns:
      The environment: one player's game against an opponent, or both sides of it.

    Raises:
      InputError: if the object is something else.

    Example:
      >>> import pgx
      >>> import purerl
      >>> purerl.from_pgx(pgx.make("tic_tac_toe")).action_space.n
      9
    """
    common.check_kind("pgx", env, lambda: _import().Env, "pgx.make('connect_four')")
    name, given = str(env.id), common.Given(env)
    if opponent == "self" and env.num_players > 1:
        made = PgxSelfPlay(name=name, options=given, time_limit=time_limit)
    else:
        made = PgxEnvironment(name=name, options=given, opponent=_opponent(opponent), time_limit=time_limit)
    validate(made, name)
    return made


def _opponent(opponent: Any) -> Opponent:
    if callable(opponent):
        return opponent  # pyright: ignore[reportReturnType]
    if opponent != "random":
        raise unknown(
            "opponent", str(opponent), ["random", "self", "a function (parameters, key, observation) -> action"]
        )
    return random_opponent


def names() -> list[str]:
    """Return pgx's ids."""
    return sorted(_import().available_envs())


def _import() -> ModuleType:
    with common.building():  # importing pgx makes arrays, and so starts JAX's backend
        import pgx
    return pgx


@functools.cache
def _build(name: str, options: common.Options | common.Given) -> PgxSetup:
    with common.building():
        if isinstance(options, common.Given):
            env = options.env
        else:
            env = _import().make(name)
            env = type(env)(**common.thaw(options)) if options else env
        first = jax.eval_shape(env.init, jax.random.key(0))
    observation, mask = first.observation, first.legal_action_mask
    spaces: dict[str, Space] = {"observation": common.box(observation), "action_mask": common.box(mask)}
    return PgxSetup(env=env, masked=not name.startswith("minatar-"), num_actions=mask.shape[0], spaces=spaces)
