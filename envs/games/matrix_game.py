"""Matrix game: two players choose at the same time, and two tables hold their rewards."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import bars
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Array, Environment, Key, TimeStep, number, pytree

DILEMMA = ((3.0, 0.0), (5.0, 1.0))  # prisoner's dilemma: 0 cooperate, 1 defect


@pytree
class MatrixGame(Environment):
    """Row i against column j: the row player gets row_payoff[i][j], the column player column_payoff[i][j].

    An episode is one round. By default the prisoner's dilemma, whose only equilibrium is that both defect: 1 each.
    Observation f32[1], always 1. Best possible return of one player: 5.

    Source: Axelrod (1984), The Evolution of Cooperation, for the default payoffs.
    """

    row_payoff: Any = number(default=DILEMMA, doc="payoffs of the row player, by row and column")
    column_payoff: Any = number(default=tuple(zip(*DILEMMA, strict=True)), doc="payoffs of the column player")

    def reset(self, key: Key) -> tuple[Array, dict[str, Array]]:
        """Start a round; nothing is random."""
        return jnp.int32(0), self._observation

    def step(self, key: Key, state: Array, action: dict[str, Array]) -> tuple[Array, TimeStep]:
        """Pay both players, and end."""
        row, column = (
            jnp.clip(action[name][0], 0, n - 1) for name, n in zip(("row", "column"), self._size, strict=True)
        )
        payoffs = {"row": self.row_payoff, "column": self.column_payoff}
        reward = {name: jnp.asarray(table, jnp.float32)[row, column][None] for name, table in payoffs.items()}
        info = {f"{name}_last": (action[name][0] == n - 1).astype(jnp.float32) for name, n in self._named_size}
        return state, TimeStep.transition(self._observation, reward, terminated=True, info=info)

    def render(self, state: Array) -> np.ndarray:
        """Draw the payoffs as bars, the row player's table before the column player's: u8[H, W, 3]."""
        tables = np.asarray([self.row_payoff, self.column_payoff], np.float32)
        return bars(tables.ravel(), min(0.0, float(tables.min())), float(tables.max()))

    def render_text(self, state: Array) -> str:
        """Return the table as text: the row player's reward / the column player's reward."""
        pairs = zip(self.row_payoff, self.column_payoff, strict=True)
        return "\n".join("  ".join(f"{a:g}/{b:g}" for a, b in zip(*rows, strict=True)) for rows in pairs)

    @property
    def _size(self) -> tuple[int, int]:
        return len(self.row_payoff), len(self.row_payoff[0])

    @property
    def _named_size(self) -> list[tuple[str, int]]:
        return list(zip(("row", "column"), self._size, strict=True))

    @property
    def _observation(self) -> dict[str, Array]:
        return {"row": jnp.ones((1, 1)), "column": jnp.ones((1, 1))}

    @property
    def observation_space(self) -> Dict:
        """f32[1] for each player."""
        part = Stacked(space=Box(low=1.0, high=1.0, shape=(1,)), n=1)
        return Dict(spaces={"row": part, "column": part})

    @property
    def action_space(self) -> Dict:
        """The row, and the column."""
        return Dict(spaces={name: Stacked(space=Discrete(n=n), n=1) for name, n in self._named_size})
