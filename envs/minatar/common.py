"""The shared part of the five MinAtar games: sticky actions, action sets, the time limit, and boards as bits."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, TypeVar, TypeVarTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from purerl.envs.drawing import LETTERS, SILVER, tiles
from purerl.spaces import Box, Discrete
from purerl.types import Array, Environment, Key, PyTree, TimeStep, number, pytree, static

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

SIZE = 10  # cells along a side
FULL_ROW = np.uint32(2**SIZE - 1)
NONE, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
_CHANNELS_PER_WORD = 3  # rows of ten bits that fit into one 32-bit word

Board = list[Array]  # ten rows, u32[] each, with bit x of row y for the cell (x, y); scalars, so that a batch is dense


class MinAtarState(NamedTuple):
    """A game with its previous action and its time."""

    game: PyTree  # the state of the game itself
    last_action: Array  # i32[], the action executed last, which a sticky step repeats
    time: Array  # i32[], steps taken


@pytree
class MinAtar(Environment):
    """A game on a 10 x 10 grid. With `sticky_action_probability` a step repeats the last executed action instead.

    Observation bool[10, 10, C], index [y, x, channel], y downward. Actions: 0 none, 1 left, 2 up, 3 right, 4 down,
    5 fire; with `action_set` "minimal" only those that the game uses, in this order.

    A game is a subclass with `_start`, `_play` and `_boards`. `_advance` is the whole step as a function of its
    random draws. A step after the end is not defined.

    Source: Young and Tian (2019), arXiv:1903.03176.
    """

    sticky_action_probability: float = number(
        default=0.1, doc="probability that a step repeats the last action", at_least=0, at_most=1
    )
    time_limit: int | None = number(default=None, doc="steps after which an episode is truncated; None: never", above=0)
    action_set: str = static(default="full", doc="all six actions, or those used", choices=("full", "minimal"))

    channels: ClassVar[tuple[str, ...]] = ()
    minimal_actions: ClassVar[tuple[int, ...]] = ()
    num_start_draws: ClassVar[int] = 0  # uniform numbers that a reset needs
    num_draws: ClassVar[int] = 0  # uniform numbers that a step needs, in addition to the one of the sticky action

    def _start(self, draws: Array) -> PyTree:
        """Return the first state of a game; `draws` is f32[num_start_draws], uniform in 0 .. 1."""
        raise NotImplementedError

    def _play(self, game: PyTree, action: Array, draws: Array) -> tuple[PyTree, Array, Array]:
        """Return (game, reward i32[], terminated bool[]); `draws` is f32[num_draws], uniform in 0 .. 1."""
        raise NotImplementedError

    @staticmethod
    def _boards(game: PyTree) -> list[Board]:
        """Return one board per channel."""
        raise NotImplementedError

    def reset(self, key: Key) -> tuple[MinAtarState, Array]:
        """Start a game without a previous action."""
        return self._begin(jax.random.uniform(key, (self.num_start_draws,), jnp.float32))

    def step(self, key: Key, state: MinAtarState, action: Array) -> tuple[MinAtarState, TimeStep]:
        """Play one step, with the given or the last action."""
        return self._advance(state, action, jax.random.uniform(key, (1 + self.num_draws,), jnp.float32))

    def _begin(self, draws: Array) -> tuple[MinAtarState, Array]:
        state = MinAtarState(game=self._start(draws), last_action=jnp.int32(NONE), time=jnp.int32(0))
        return state, self.observe(state)

    def _advance(self, state: MinAtarState, action: Array, draws: Array) -> tuple[MinAtarState, TimeStep]:
        if self.action_set == "minimal":
            codes = sum(code << 4 * index for index, code in enumerate(self.minimal_actions))
            action = (codes >> 4 * action) & 15
        action = jnp.where(draws[0] < self.sticky_action_probability, state.last_action, action)
        game, reward, terminated = self._play(state.game, action, draws[1:])
        state = MinAtarState(game=game, last_action=action, time=state.time + 1)
        time_up, reward = self.time_limit is not None and state.time >= self.time_limit, reward.astype(jnp.float32)
        return state, TimeStep.transition(self.observe(state), reward, terminated=terminated, time_up=time_up)

    def render_text(self, state: MinAtarState) -> str:
        """Return the board as text: the number of the first channel that is set in each cell, or a dot."""
        board = np.asarray(self.observe(jax.tree.map(jnp.asarray, state)))
        names = np.array([*LETTERS[: len(self.channels)], "."])
        return "\n".join("".join(row) for row in names[np.where(board.any(-1), board.argmax(-1), -1)])

    def render(self, state: MinAtarState) -> np.ndarray:
        """Draw the tiles of `render_text`: u8[H, W, 3]."""
        trails = {LETTERS[i]: SILVER for i, name in enumerate(self.channels) if name == "trail"}
        return tiles(self.render_text(state), trails)

    def observe(self, state: MinAtarState) -> Array:
        """Return bool[10, 10, C]."""
        boards = type(self)._boards
        words = alone(lambda game: pack(boards(game)), state.game)
        return alone(functools.partial(unpack, len(self.channels)), words)

    @property
    def observation_space(self) -> Box:
        """bool[10, 10, C]."""
        return Box(low=False, high=True, shape=(SIZE, SIZE, len(self.channels)), dtype=jnp.bool_)

    @property
    def action_space(self) -> Discrete:
        """All six actions, or those that the game uses."""
        return Discrete(n=6 if self.action_set == "full" else len(self.minimal_actions))


def bit(index: Array) -> Array:
    """Return u32 with bit `index` (0 .. 31) set."""
    return jnp.uint32(1) << index.astype(jnp.uint32)


def test_bit(word: Array, index: Array) -> Array:
    """Return bool: whether bit `index` (0 .. 31) of u32 `word` is set."""
    return ((word >> index.astype(jnp.uint32)) & jnp.uint32(1)) != 0


def cell(x: Array, y: Array | int, present: Array | bool = True) -> Board:
    """Return a board with one cell set, or an empty one if not `present` or off the grid."""
    inside = (x >= 0) & (x < SIZE) & present
    mark = jnp.where(inside, bit(jnp.clip(x, 0, SIZE - 1)), jnp.uint32(0))
    return [jnp.where(y == row, mark, jnp.uint32(0)) for row in range(SIZE)]


def from_lanes(lanes: Sequence[Array]) -> Board:
    """Return the board of the rows 1 .. 8, u32[] each."""
    return [jnp.uint32(0), *lanes, jnp.uint32(0)]


def union(*boards: Board) -> Board:
    """Return the board of all cells that are set in one of `boards`."""
    return [functools.reduce(operator.or_, rows) for rows in zip(*boards, strict=True)]


def pack(boards: Sequence[Board]) -> Array:
    """Return u32[ceil(C / 3), 10]: the rows of three channels in one word."""
    words = []
    for first in range(0, len(boards), _CHANNELS_PER_WORD):
        layers = boards[first : first + _CHANNELS_PER_WORD]
        shifted = [[row << jnp.uint32(SIZE * offset) for row in layer] for offset, layer in enumerate(layers)]
        words.append(jnp.stack(union(*shifted)))
    return jnp.stack(words)


def unpack(num_channels: int, words: Array) -> Array:
    """Return bool[10, 10, C] from the words of `pack`."""
    column, channel = np.divmod(np.arange(SIZE * num_channels), num_channels)
    halves = []
    # Put together from two halves, a CPU writes a row of 10 C cells at a time, else only C: five times slower.
    for rows in (slice(0, SIZE // 2), slice(SIZE // 2, SIZE)):
        cells = jnp.uint32(0)
        for index in range(len(words)):
            position = column + SIZE * (channel - _CHANNELS_PER_WORD * index)
            here = channel // _CHANNELS_PER_WORD == index
            mask = np.where(here, 1 << np.where(here, position, 0), 0)
            cells = cells | words[index, rows, None] & jnp.asarray(mask, jnp.uint32)
        halves.append(cells != 0)
    return jnp.concatenate(halves).reshape(SIZE, SIZE, num_channels)


def alone(function: Callable[[*Ts], R], *arguments: *Ts) -> R:
    """Return `function(*arguments)`, which the CPU's compiler does not fuse with its surroundings.

    Fused, it would compute the arguments again for each of the many values that depend on them.
    """

    def outlined(*arguments: object) -> PyTree:
        with set_xla_metadata(inlineable="false"):
            return jax.jit(function)(*arguments)

    return jax.lax.platform_dependent(*arguments, cpu=outlined, default=function)
