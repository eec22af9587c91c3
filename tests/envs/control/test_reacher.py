"""The reacher against Lagrange's equations, formed numerically from where the rods are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.control.reacher import Reacher, ReacherState

LENGTH, MASS, DAMPING, TORQUE = (0.5, 0.7), (1.0, 1.3), 0.2, 0.5


def points(q):
    """Return the middles of both rods and the tip, in float64."""
    first = LENGTH[0] * np.array([np.cos(q[0]), np.sin(q[0])])
    second = LENGTH[1] * np.array([np.cos(q[0] + q[1]), np.sin(q[0] + q[1])])
    return first / 2, first + second / 2, first + second


def inertia_matrix(q, h=1e-5):
    """Sum m J^T J over the rods' middles (Jacobians by differences) and the rods' own turning."""
    total = np.zeros((2, 2))
    for rod, turning in ((0, np.array([[1.0, 0.0]])), (1, np.array([[1.0, 1.0]]))):
        jacobian = np.stack([(points(q + h * e)[rod] - points(q - h * e)[rod]) / (2 * h) for e in np.eye(2)], 1)
        total += MASS[rod] * (jacobian.T @ jacobian + LENGTH[rod] ** 2 / 12 * turning.T @ turning)
    return total


def accelerations(q, dq, action, h=1e-4):
    change = np.stack([(inertia_matrix(q + h * e) - inertia_matrix(q - h * e)) / (2 * h) for e in np.eye(2)], 2)
    coriolis = np.einsum("ijk,j,k->i", change, dq, dq) - 0.5 * np.einsum("jki,j,k->i", change, dq, dq)
    return np.linalg.solve(inertia_matrix(q), TORQUE * action - DAMPING * dq - coriolis)


@pytest.mark.long
def test_equals_lagranges_equations(key):
    env = Reacher(length_1=LENGTH[0], length_2=LENGTH[1], mass_1=MASS[0], mass_2=MASS[1])
    step, rng = jax.jit(env.step), np.random.default_rng(0)
    for _ in range(300):
        q, dq = rng.uniform(-3.1, 3.1, 2), rng.uniform(-4, 4, 2)
        action, target = rng.uniform(-1.5, 1.5, 2), rng.uniform(-0.6, 0.6, 2)
        state = ReacherState(*map(jnp.float32, (*q, *dq, *target)), jnp.int32(0))
        _, result = step(key, state, jnp.asarray(action, jnp.float32))
        clipped = np.clip(action, -1, 1)
        velocity = dq + 0.05 * accelerations(q, dq, clipped)
        angle = q + 0.05 * velocity
        off = points(angle)[2] - target
        expected = [np.cos(angle[0]), np.sin(angle[0]), np.cos(angle[1]), np.sin(angle[1]), *velocity, *target, *off]
        np.testing.assert_allclose(result.observation, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(result.reward, -np.hypot(*off) - 0.05 * (clipped**2).sum(), atol=1e-4)


@pytest.mark.long
def test_stays_bounded_and_is_cut_off(key):
    env = Reacher()

    def play(key):
        def body(state, key):
            state, step = env.step(key, state, jnp.sign(env.action_space.sample(key)))
            return state, step

        return jax.lax.scan(body, env.reset(key)[0], jax.random.split(key, 100))[1]

    step = jax.jit(jax.vmap(play))(jax.random.split(key, 200))
    assert float(jnp.abs(step.observation).max()) < 20
    np.testing.assert_array_equal(step.truncated[0], np.arange(100) == 99)
    assert not np.any(step.terminated)
