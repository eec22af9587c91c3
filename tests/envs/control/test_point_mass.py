"""The point mass against NumPy and against the linear-quadratic regulator."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.control.point_mass import PointMass, PointMassState


def riccati(steps=100, dt=0.1, drag=0.1):
    """Return the gains of each step and the cost matrix of one axis: position, velocity."""
    transition = np.array([[1, dt * (1 - dt * drag)], [0, 1 - dt * drag]])
    control, cost, gains = np.array([[dt * dt], [dt]]), np.zeros((2, 2)), []
    for _ in range(steps):
        gain = np.linalg.solve(0.01 + control.T @ cost @ control, control.T @ cost @ transition)
        cost = np.diag([1, 0.1]) + transition.T @ cost @ (transition - control @ gain)
        gains.append(gain[0])
    return np.array(gains[::-1], np.float32), cost


def test_regulator_gets_what_riccati_says_and_none_gets_more(key):
    env, (gains, cost) = PointMass(), riccati()

    def play(start, gains, noise):
        def body(state, inputs):
            gain, noise = inputs
            action = -jnp.stack(
                [gain[0] * state.x + gain[1] * state.velocity_x, gain[0] * state.y + gain[1] * state.velocity_y]
            )
            state, step = env.step(key, state, action + noise)
            return state, step

        state = PointMassState(
            x=start[0], y=start[1], velocity_x=jnp.float32(0), velocity_y=jnp.float32(0), time=jnp.int32(0)
        )
        step = jax.lax.scan(body, state, (gains, noise))[1]
        return step.reward.sum(), step.truncated

    play = jax.jit(play)
    small = np.array([0.05, -0.02], np.float32)  # no action reaches its bound
    best, truncated = play(small, gains, jnp.zeros((100, 2)))
    np.testing.assert_allclose(best, -cost[0, 0] * (small**2).sum(), rtol=1e-4)
    np.testing.assert_array_equal(truncated, np.arange(100) == 99)
    for seed in range(5):
        noise = 0.1 * jax.random.normal(jax.random.key(seed), (100, 2))
        assert float(play(small, gains, noise)[0]) < float(best)
    bounded = float(play(np.array([1.0, 1.0], np.float32), gains, jnp.zeros((100, 2)))[0])
    assert bounded < -2 * cost[0, 0]
    assert f"-{cost[0, 0]:.4f}" in PointMass.__doc__
    assert f"-{2 / 3 * cost[0, 0]:.4f}" in PointMass.__doc__


def test_starts_are_uniform(key):
    observation = np.asarray(jax.vmap(PointMass().reset)(jax.random.split(key, 3000))[1])
    np.testing.assert_allclose(observation[:, :2].min(0), -1, atol=0.01)
    np.testing.assert_allclose(observation[:, :2].max(0), 1, atol=0.01)
    np.testing.assert_allclose((observation[:, :2] ** 2).mean(0), 1 / 3, atol=0.03)
    np.testing.assert_array_equal(observation[:, 2:], 0)
