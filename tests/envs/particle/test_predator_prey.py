"""Predators and prey: rewards of touches."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.particle.predator_prey import PredatorPrey


def test_each_touch_counts_for_all_predators_and_against_the_prey_touched():
    """Two predators reach the prey from either side, a third is far away."""
    env = PredatorPrey(num_predators=3, num_prey=1)
    state, _ = env.reset(jax.random.key(0))
    place = jnp.array([[0.19, 0.0], [-0.19, 0.0], [0.7, 0.7], [0.0, 0.0]])
    speed = jnp.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    state = state._replace(position=place, velocity=speed, landmark=jnp.full_like(state.landmark, -0.8))
    still = {"predators": jnp.zeros(3, jnp.int32), "prey": jnp.zeros(1, jnp.int32)}
    timestep = jax.jit(env.step)(jax.random.key(1), state, still)[1]
    np.testing.assert_allclose(timestep.reward["predators"], [20.0, 20.0, 20.0])
    np.testing.assert_allclose(timestep.reward["prey"], [-20.0])
