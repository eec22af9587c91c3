"""A game in turns between a person at a terminal and a player: a run's agent, or one without a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.errors import InputError, unknown
from purerl.host_environment import HostSource
from purerl.prng import fast
from purerl.run.plan import load_policy, make_environment
from purerl.run.tournament import REFERENCES
from purerl.settings import agent_file
from purerl.types import EnvironmentSpec, Key, PyTree, Situation
from purerl.wrappers import Situations
from purerl.wrappers.situations import no_sides

FIRST, SECOND, DRAWN = SEATS = ("first", "second", "drawn")


class Opponent(NamedTuple):
    """Who plays against the person."""

    name: str
    carry: PyTree  # before its first move
    move: Callable[[PyTree, Key, Situation], tuple[Any, PyTree]]  # (carry, key, situation) -> (action, carry)


class Match(NamedTuple):
    """How a match ended."""

    reward: float  # the person's
    moves: int  # of both
    over: bool  # False: the person left


def game_of(environment: str) -> Situations:
    """Return a board game of two that move in turns.

    Raises:
      InputError: if there is none of that name.
    """
    env = make_environment(environment, {})
    if isinstance(env, HostSource):
        problem = "it runs on the host"
    else:
        try:
            env = env.for_self_play()
            problem = no_sides(env)
        except InputError as error:  # it is played alone
            problem = str(error)
        if not problem and getattr(env, "has_board", False):
            return Situations(env)
    problem = problem or "it has no board that is drawn as text"
    raise InputError(f"--against is for board games of two in turns, and {environment} is none: {problem}")


def opponent_of(name: str, game: Situations) -> Opponent:
    """Return an opponent.

    Args:
      name: of `tournament.REFERENCES`, a run's folder (its first seed that did not fail), an agent's file, or zoo/NAME.
      game: that is played.

    Raises:
      InputError: if there is none of that name, or it plays another game.
    """
    if name in REFERENCES:
        player = REFERENCES[name]
        return Opponent(name=name, carry=(), move=lambda carry, key, situation: (player(game, key, situation), carry))
    if not (Path(name).is_dir() or agent_file.find(Path(name))):
        raise unknown("opponent", name, [*REFERENCES, "a run's folder", "an agent's file", "zoo/NAME"])
    factory, config, agent = load_policy(Path(name), "")
    spec, searches = EnvironmentSpec(game.observation_space, game.action_space), getattr(config, "uses_model", False)
    made: Any = factory
    algorithm = made(spec, config, model=game.model) if searches else made(spec, config)
    if not _same(jax.eval_shape(algorithm.init, jax.random.key(0)), agent):
        raise InputError(f"the agent of {name} plays another game")

    def move(carry: PyTree, key: Key, situation: Situation) -> tuple[Any, PyTree]:
        seen = situation if searches else situation.observation
        action, carry, _ = algorithm.act(agent, carry, key, jax.tree.map(lambda x: x[None], seen), False)
        return action[0], carry

    return Opponent(name=name, carry=algorithm.initial_carry(1), move=move)


def _same(wanted: Any, agent: Any) -> bool:
    """Return whether an agent's parameters are of the wanted shapes."""
    shapes = lambda agent: jax.tree.map(np.shape, getattr(agent, "params", agent))
    return shapes(wanted) == shapes(agent)


def play_match(
    game: Situations,
    opponent: Opponent,
    key: Key,
    seat: str,
    ask: Callable[[str], str | None],
    tell: Callable[[str], None],
) -> Match:
    """Play a game.

    Args:
      game: from `game_of`.
      opponent: from `opponent_of`.
      key: draws the start, and whatever is random.
      seat: whether the person makes the first move or the second, or that is drawn: of `SEATS`.
      ask: shows a prompt and returns what the person says; None to leave.
      tell: shows lines.
    """
    key = fast(key)
    situation, _ = jax.jit(game.reset)(key)
    step, choose = jax.jit(game.advance), jax.jit(opponent.move)
    mine = {FIRST: int(situation.side), SECOND: 1 - int(situation.side), DRAWN: int(jax.random.bernoulli(key))}[seat]
    tell(f"you are {'XO'[mine]}; {opponent.name} is {'XO'[1 - mine]}; q leaves")
    carry, reward, moves, over = opponent.carry, 0.0, 0, False
    while not over:
        key, key_act, key_step = jax.random.split(key, 3)
        if int(situation.side) == mine:
            tell(game.render_text(situation))
            action = _asked(game, situation, ask, tell)
            if action is None:
                return Match(reward=reward, moves=moves, over=False)
        else:
            action, carry = choose(carry, key_act, situation)
            tell(f"{opponent.name} plays {game.env.action_text(int(action))}")
        situation, timestep = step(key_step, situation, np.int32(action))
        reward, moves, over = reward + float(timestep.reward[mine]), moves + 1, bool(timestep.done)
    tell(game.render_text(situation))
    return Match(reward=reward, moves=moves, over=over)


def _asked(
    game: Situations, situation: Situation, ask: Callable[[str], str | None], tell: Callable[[str], None]
) -> int | None:
    """Ask for a move until it is a legal one; None to leave."""
    observation: Any = situation.observation
    mask = observation["action_mask"] if isinstance(observation, dict) and "action_mask" in observation else None
    actions = range(game.action_space.n) if mask is None else np.flatnonzero(mask).tolist()  # type: ignore[attr-defined]
    legal = {game.env.action_text(action): action for action in actions}
    while True:
        said = ask("your move: ")
        if said is None or said.strip().lower() in ("q", "quit"):
            return None
        if said.strip().lower() in legal:
            return legal[said.strip().lower()]
        tell(f"'{said.strip()}' is no legal move; legal: {', '.join(legal)}")
