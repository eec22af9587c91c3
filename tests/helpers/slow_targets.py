"""Rescaled n-step targets by plain loops."""

import numpy as np


def h(x, epsilon=1e-3):
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x


def h_inverse(x, epsilon=1e-3):
    return np.sign(x) * (((np.sqrt(1 + 4 * epsilon * (np.abs(x) + 1 + epsilon)) - 1) / (2 * epsilon)) ** 2 - 1)


def slow_targets(reward, terminated, truncated, values, discount, n_step):
    """y_t = h(R + discount^m h^-1(V)) step by step; values f[L] are of every step's true successor.

    Returns (y, the last step of each window).
    """
    y, last = [], []
    for t in range(len(reward)):
        total, factor, at = 0.0, 1.0, t
        for _ in range(n_step):
            total += factor * reward[at]
            factor *= discount
            at += 1
            if at == len(reward) or terminated[at - 1] or truncated[at - 1]:
                break
        over = terminated[at - 1]
        y.append(h(total + (0.0 if over else factor * h_inverse(values[at - 1]))))
        last.append(at - 1)
    return np.array(y), np.array(last)
