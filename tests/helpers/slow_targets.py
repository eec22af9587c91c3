"""Rescaled n-step targets by plain loops."""

import numpy as np


def h(x, epsilon=1e-3):
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x


def h_inverse(x, epsilon=1e-3):
    return np.sign(x) * (((np.sqrt(1 + 4 * epsilon * (np.abs(x) + 1 + epsilon)) - 1) / (2 * epsilon)) ** 2 - 1)


def slow_targets(reward, terminated, truncated, values, discount, n_step):
    """y_t = h(R + discount^m h^-1(V)) step by step; f[L] holds the values of every step's next observation.

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


def slow_trace_targets(reward, terminated, truncated, values, discount, trace, taken=None, greedy=None):
    """h of the targets that mix all n-step returns of an episode, each written as a sum over its steps.

    y_t = h(Q_t + sum_k discount^k (c_{t+1} .. c_{t+k}) delta_{t+k}), delta_k = r_k + discount V_k - Q_k; for Peng's
    Q(lambda), of which no step's Q is given, Q_k of k > t is the value V_{k-1} bootstrapped from, and c lambda.

    Returns (y, the last step of each episode).
    """
    length, y, last = len(reward), [], []
    value = h_inverse(values)
    for t in range(length):
        total, factor, at = reward[t] + (0.0 if terminated[t] else discount * value[t]), discount, t
        while at + 1 < length and not terminated[at] and not truncated[at]:
            base = value[at] if taken is None else h_inverse(taken[at + 1])
            at += 1
            factor *= trace if greedy is None else trace * greedy[at]
            step = reward[at] + (0.0 if terminated[at] else discount * value[at])
            total += factor * (step - base)
            factor *= discount
        y.append(h(total))
        last.append(at)
    return np.array(y), np.array(last)
