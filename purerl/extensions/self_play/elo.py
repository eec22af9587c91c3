"""Elo ratings: the strength of players, from the games that they played against one another."""

import numpy as np

SCALE = 400.0 / np.log(10.0)  # a lead of 400 points wins ten games of eleven
FIRST = 1000.0  # the first player's rating


def ratings(points: np.ndarray, prior: float = 0.5) -> np.ndarray:
    r"""Return f64[n], the maximum-likelihood ratings of the games; the first player's rating is `FIRST`.

    Player i beats j with probability 1 / (1 + 10^{(R_j - R_i) / 400}).

    Args:
      points: f[n, n], the points of player i against j: 1 for a win, 1/2 for a tie.
      prior: games that every two players are taken to have won against each other besides, so that who never lost has
        a rating, too.

    Source: Bradley and Terry (1952); Elo (1978).
    """
    n = len(points)
    won = np.asarray(points, np.float64) + prior * (1 - np.eye(n))
    played, strength = won + won.T, np.zeros(n)
    for _ in range(100):  # Newton's method on a concave function
        expected = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
        slope = (won - played * expected).sum(1)[1:]
        weight = played * expected * (1 - expected)
        curve = np.diag(weight.sum(1)) - weight
        step = np.linalg.solve(curve[1:, 1:], slope)
        strength[1:] += np.clip(step, -1, 1)
        if np.abs(step).max(initial=0) < 1e-10:
            break
    return FIRST + SCALE * strength
