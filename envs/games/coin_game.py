"""Coin game: two players on a torus; taking the other player's coin hurts that player."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import tiles
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static

PLAYERS = ("blue", "red")


class CoinState(NamedTuple):
    """Two players and a coin; cells are row x size + column."""

    place: Array  # i32[2], of blue and red
    coin: Array  # i32[]
    color: Array  # i32[], 0: blue's coin, 1: red's
    time: Array  # i32[], steps taken


@pytree
class CoinGame(Environment):
    """A coin pays 1 to the player who steps on it; if it is the other's coin, the other pays `harm`.

    Taking every coin is each player's best answer whatever the other does, and the only equilibrium: for equally quick
    players it is worth (1 - harm / 2) of a coin. If both leave the other's coins alone, each gets 1 for half of them.
    Moves wrap around: 0 left, 1 right, 2 up, 3 down, 4 stay. A new coin lies in a cell where nobody stands, blue or red
    with equal chance. Best possible return of one player: below time_limit.

    Observation f32[4 size^2] of each player: where it is, where the other is, a coin of its own, a coin of the other's.

    Source: Lerer and Peysakhovich (2017), arXiv:1707.01068.
    """

    size: int = static(default=3, doc="cells along each side", at_least=2)
    harm: float = number(default=2.0, doc="cost for a player when the other takes its coin", at_least=0)
    time_limit: int = number(default=50, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[CoinState, dict[str, Array]]:
        """Place both players and a coin at random."""
        key_place, key_coin = jax.random.split(key)
        place = jax.random.randint(key_place, (2,), 0, self.size**2, jnp.int32)
        coin, color = self._coin(key_coin, place)
        state = CoinState(place=place, coin=coin, color=color, time=jnp.int32(0))
        return state, self.observe(state)

    def step(self, key: Key, state: CoinState, action: dict[str, Array]) -> tuple[CoinState, TimeStep]:
        """Move both players, then check who stands on the coin."""
        move = jnp.stack([action[name][0] for name in PLAYERS])
        row = state.place // self.size + (move == 3).astype(jnp.int32) - (move == 2).astype(jnp.int32)
        column = state.place % self.size + (move == 1).astype(jnp.int32) - (move == 0).astype(jnp.int32)
        place = (row % self.size) * self.size + column % self.size
        took = place == state.coin
        hurt = (jnp.arange(2) == state.color) & took[::-1]
        reward = took.astype(jnp.float32) - jnp.where(hurt, self.harm, 0.0)
        coin, color = self._coin(key, place)
        gone = jnp.any(took)
        after = CoinState(
            place=place,
            coin=jnp.where(gone, coin, state.coin),
            color=jnp.where(gone, color, state.color),
            time=state.time + 1,
        )
        rewards = {name: reward[i : i + 1] for i, name in enumerate(PLAYERS)}
        return after, TimeStep.transition(self.observe(after), rewards, time_up=after.time >= self.time_limit)

    def _coin(self, key: Key, place: Array) -> tuple[Array, Array]:
        """Return (cell, color) of a new coin."""
        key_cell, key_color = jax.random.split(key)
        cells = jnp.arange(self.size**2)
        free = (cells != place[0]) & (cells != place[1])
        cell = jnp.argmax(jnp.where(free, jax.random.uniform(key_cell, cells.shape), -1.0)).astype(jnp.int32)
        return cell, jax.random.randint(key_color, (), 0, 2, jnp.int32)

    def observe(self, state: CoinState) -> dict[str, Array]:
        """Return each player's observation, from its own perspective."""
        cells = jnp.arange(self.size**2)
        seen = {}
        for i, name in enumerate(PLAYERS):
            coin = cells == state.coin
            mine = state.color == i
            planes = (cells == state.place[i], cells == state.place[1 - i], coin & mine, coin & ~mine)
            seen[name] = jnp.concatenate(planes).astype(jnp.float32)[None]
        return seen

    def render_text(self, state: CoinState) -> str:
        """Return the cells as text: @ blue, H red, * both, o blue's coin, ? red's."""
        cells = np.full(self.size**2, ".")
        cells[int(state.coin)] = "?" if int(state.color) else "o"
        blue, red = (int(place) for place in state.place)
        cells[red] = "H"
        cells[blue] = "*" if blue == red else "@"
        return "\n".join("".join(row) for row in cells.reshape(self.size, self.size))

    def render(self, state: CoinState) -> np.ndarray:
        """Draw the cells: u8[H, W, 3]."""
        return tiles(self.render_text(state), {"o": (120, 190, 240), "?": (240, 170, 130)})

    @property
    def observation_space(self) -> Dict:
        """f32[4 size^2] for each player."""
        part = Stacked(space=Box(low=0.0, high=1.0, shape=(4 * self.size**2,)), n=1)
        return Dict(spaces=dict.fromkeys(PLAYERS, part))

    @property
    def action_space(self) -> Dict:
        """The move of each player."""
        return Dict(spaces=dict.fromkeys(PLAYERS, Stacked(space=Discrete(n=5), n=1)))
