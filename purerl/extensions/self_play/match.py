"""Turn-based games between two players: a run's agent, a scripted player, or a person at a terminal."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, unknown
from purerl.extensions.self_play.sides import both_sides
from purerl.extensions.self_play.solver import perfect, solve
from purerl.extensions.self_play.tournament import REFERENCES
from purerl.functional.action_masks import action_mask
from purerl.host_environment import HostSource
from purerl.prng import fast
from purerl.run.environments import make_environment
from purerl.run.plan import Plan, load_policy, policy_of
from purerl.run.trained_run import TrainedRun, with_simulations
from purerl.run.warm_start import TrainedPolicy
from purerl.settings import agent_file
from purerl.types import Array, EnvironmentSpec, Key, PyTree
from purerl.wrappers import Situations
from purerl.wrappers.situations import Situation, no_sides
from purerl.xla import backend
from purerl.xla.trees import where

PERFECT = "perfect"
MOST_MOVES = 200  # longest game against a player that looks ahead
PLAYERS = (*REFERENCES, PERFECT)  # players that are not runs
FIRST, SECOND, DRAWN = SEATS = ("first", "second", "drawn")


class Contender(NamedTuple):
    """A player that chooses its moves by a function."""

    name: str
    agent: PyTree  # what `move` plays by
    carry: PyTree  # before its first move
    move: Callable[[PyTree, PyTree, Key, Situation], tuple[Any, PyTree]]  # (agent, carry, ...) -> (action, carry)


class Match(NamedTuple):
    """The outcome of a match."""

    reward: float  # the person's
    moves: int  # moves of both players
    over: bool  # False: the person left


def game_of(environment: str, parameters: Mapping[str, object] | None = None, *, board: bool = True) -> Situations:
    """Return a turn-based game of two players.

    Args:
      environment: its name.
      parameters: its parameters; an opponent among them is ignored.
      board: whether it must have a board that can be printed as text.

    Raises:
      InputError: if there is none of that name, or it has no board.
    """
    env = make_environment(environment, dict(parameters or {}))
    if isinstance(env, HostSource):
        problem = "it runs on the host"
    else:
        try:
            env = both_sides(env)
            problem = no_sides(env)
        except InputError as error:  # it is played alone
            problem = str(error)
        if not problem and (not board or getattr(env, "has_board", False)):
            return Situations(env)
    problem = problem or "it has no board that is drawn as text"
    wanted = f"a turn-based {'board ' * board}game of two"
    raise InputError(f"--against needs {wanted}, and {environment} is not one: {problem}")


def contender_of(name: str, game: Situations, simulations: int | None = None) -> Contender:
    """Return a contender.

    Args:
      name: a name in `PLAYERS`, a run's folder, an agent's file, or zoo/NAME.
      game: that is played.
      simulations: simulations per move, if it plans; None: as it was trained.

    Raises:
      InputError: if there is none of that name, it plays another game or does not search, or the game is too large for
        perfect play.
    """
    if name in PLAYERS:
        if simulations is not None:
            raise InputError(f"simulations only apply to agents that plan (alphazero, muzero); {name} is not one")
        moves = game.action_space.n  # type: ignore[attr-defined]
        if name == "lookahead" and moves > MOST_MOVES:
            raise InputError(f"lookahead tries every move and every reply: {moves} moves are too many for it")
        player = perfect(solve(game, jax.random.key(0))) if name == PERFECT else REFERENCES[name]
        plays = lambda agent, carry, key, situation: (player(game, key, situation), carry)
        return Contender(name=name, agent=(), carry=(), move=plays)
    if not (Path(name).is_dir() or agent_file.find(Path(name))):
        raise unknown("opponent", name, [*PLAYERS, "a run's folder", "an agent's file", "zoo/NAME"])
    policy = load_policy(Path(name), "")
    if simulations is not None:
        policy = policy._replace(config=with_simulations(policy.config, simulations, name))
    return _trained(name, policy, game)


def _trained(name: str, policy: TrainedPolicy, game: Situations) -> Contender:
    """Return a trained policy as a contender."""
    factory, config, agent = policy
    spec, searches = EnvironmentSpec(game.observation_space, game.action_space), config.plans > 0
    made: Any = factory
    algorithm = made(spec, config, model=game.model) if searches else made(spec, config)
    if not _same(jax.eval_shape(algorithm.init, jax.random.key(0)), agent):
        raise InputError(f"the agent of {name} plays another game")

    def move(agent: PyTree, carry: PyTree, key: Key, situation: Situation) -> tuple[PyTree, PyTree]:
        seen = situation if searches else situation.observation
        action, carry, _ = algorithm.act(agent, carry, key, jax.tree.map(lambda x: x[None], seen), False)
        return action[0], carry

    return Contender(name=name, agent=agent, carry=algorithm.initial_carry(1), move=move)


def _same(wanted: object, agent: PyTree) -> bool:
    """Return whether an agent's parameters have the wanted shapes."""
    shapes = lambda agent: jax.tree.map(np.shape, getattr(agent, "params", agent))
    return shapes(wanted) == shapes(agent)


def play_games(game: Situations, first: Contender, second: Contender, key: Key, count: int) -> Array:
    """Play games between two contenders; agents may be traced.

    Args:
      game: from `game_of`.
      first: makes the first move of each game.
      second: the contender that makes the other side's moves.
      key: a key for the starts and everything random.
      count: how many games.

    Returns:
      f32[count], the sums of the rewards of `first`: above 0 if it won, 0 for a tie.
    """
    key_start, key = jax.random.split(fast(key))
    situations, _ = jax.vmap(game.reset)(jax.random.split(key_start, count))
    begins = situations.side
    carries = tuple(_stacked(one.carry, count) for one in (first, second))

    def step(state: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        situations, carries, reward, over, key = state
        key, *key_of, key_step = jax.random.split(key, 4)
        moved = [
            jax.vmap(one.move, in_axes=(None, 0, 0, 0))(one.agent, carry, jax.random.split(of_one, count), situations)
            for one, carry, of_one in zip((first, second), carries, key_of, strict=True)
        ]
        of_first = situations.side == begins
        action = jnp.where(of_first, moved[0][0], moved[1][0])
        after, timestep = jax.vmap(game.advance)(jax.random.split(key_step, count), situations, action)
        gained = jnp.take_along_axis(timestep.reward, begins[:, None], axis=1)[:, 0]
        following = tuple(
            where(moves, new, old) for moves, (_, new), old in zip((of_first, ~of_first), moved, carries, strict=True)
        )
        reward = reward + jnp.where(over, 0.0, gained)
        return where(over, situations, after), following, reward, over | timestep.done, key

    begun = (situations, carries, jnp.zeros(count), jnp.zeros(count, bool), key)
    return jax.lax.while_loop(lambda state: ~jnp.all(state[3]), step, begun)[2]


def _stacked(tree: PyTree, count: int) -> PyTree:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), tree)


class Score(NamedTuple):
    """The fractions of games that an agent won, tied and lost."""

    seat: str  # whether it made the first move or the second
    games: int
    won: float
    drawn: float
    lost: float


def compare(run: TrainedRun, plan: Plan, against: str, games: int, seed: int | None = None) -> dict[int, list[Score]]:
    """Play the agents of a run against a contender, from either seat.

    Args:
      run: the run whose agents play, except agents of failed seeds.
      plan: the plan of the run, with the environment that is played.
      against: as for `contender_of`.
      games: number of games from each seat.
      seed: the seed of the starts and of everything random; None: the run's own.

    Returns:
      Seed -> scores from the first seat and from the second.

    Raises:
      InputError: as `contender_of`, if the run's environment is not a turn-based game of two, or every seed failed.
    """
    game, first = game_of(run.settings.environment, plan.settings.parameters, board=False), run.settings.options.seed
    numbers = np.flatnonzero(~run.failed).tolist()
    if not numbers:
        raise InputError(f"every seed of {run.folder} failed in training: there is no agent to play")
    opponent = contender_of(against, game)
    trained = [policy_of(run.plan, run.agent(number), "", run.folder) for number in numbers]
    agents = [_trained(str(run.folder), policy, game) for policy in trained]
    key_first, key_second = jax.random.split(jax.random.key(first if seed is None else seed))

    @backend.jit
    def rewards(agent: PyTree, other: PyTree) -> Array:
        """Return f32[2, games], the agent's from either seat."""
        mine, theirs = agents[0]._replace(agent=agent), opponent._replace(agent=other)
        leading = play_games(game, mine, theirs, key_first, games)
        return jnp.stack([leading, -play_games(game, theirs, mine, key_second, games)])

    scores = {}
    for number, one in zip(numbers, agents, strict=True):
        won = np.asarray(rewards(one.agent, opponent.agent))
        scores[first + number] = [
            Score(seat=seat, games=games, won=np.mean(x > 0), drawn=np.mean(x == 0), lost=np.mean(x < 0))
            for seat, x in zip(SEATS, won, strict=False)
        ]
    return scores


def table(run: TrainedRun, scores: dict[int, list[Score]]) -> list[str]:
    """Return scores as lines: a row per seed and seat."""
    lines = [f"{run.settings.algorithm} on {run.settings.environment}, update {int(run.state.num_updates):,}"]
    lines.append(f"{'seed':>6} {'move':>7} {'games':>7} {'won':>7} {'drawn':>7} {'lost':>7}")
    for seed, rows in scores.items():
        for seat, games, *shares in rows:
            lines.append(f"{seed:6} {seat:>7} {games:7} {' '.join(f'{share:7.1%}' for share in shares)}")
    return lines


def play_match(
    game: Situations,
    opponent: Contender,
    key: Key,
    seat: str,
    ask: Callable[[str], str | None],
    tell: Callable[[str], None],
) -> Match:
    """Play a game.

    Args:
      game: from `game_of`.
      opponent: from `contender_of`.
      key: a key for the start and everything random.
      seat: one of `SEATS`: the person makes the first or the second move, or the seat is random.
      ask: a function that shows a prompt and returns the person's answer; None to leave.
      tell: a function that prints lines.
    """
    key = fast(key)
    situation, _ = jax.jit(game.reset)(key)
    step, choose = jax.jit(game.advance), jax.jit(opponent.move)
    mine = {FIRST: int(situation.side), SECOND: 1 - int(situation.side), DRAWN: int(jax.random.bernoulli(key))}[seat]
    sides: Any = game.env
    pieces = sides.side_texts
    tell(f"you are {pieces[mine]}; {opponent.name} is {pieces[1 - mine]}; q leaves")
    carry, reward, moves, over = opponent.carry, 0.0, 0, False
    while not over:
        key, key_act, key_step = jax.random.split(key, 3)
        if int(situation.side) == mine:
            tell(game.render_text(situation))
            action = _asked(game, situation, ask, tell)
            if action is None:
                return Match(reward=reward, moves=moves, over=False)
        else:
            action, carry = choose(opponent.agent, carry, key_act, situation)
            tell(f"{opponent.name} plays {game.env.action_text(int(action))}")
        situation, timestep = step(key_step, situation, np.int32(action))
        reward, moves, over = reward + float(timestep.reward[mine]), moves + 1, bool(timestep.done)
    tell(game.render_text(situation))
    return Match(reward=reward, moves=moves, over=over)


def _asked(
    game: Situations, situation: Situation, ask: Callable[[str], str | None], tell: Callable[[str], None]
) -> int | None:
    """Ask for a move until it is legal; None to leave."""
    mask = action_mask(situation.observation)
    actions = range(game.action_space.n) if mask is None else np.flatnonzero(mask).tolist()  # type: ignore[attr-defined]
    legal = {game.env.action_text(action): action for action in actions}
    while True:
        said = ask("your move: ")
        if said is None or said.strip().lower() in ("q", "quit"):
            return None
        if said.strip().lower() in legal:
            return legal[said.strip().lower()]
        tell(f"'{said.strip()}' is not a legal move; legal: {', '.join(legal)}")
