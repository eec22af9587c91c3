"""Predator and prey: slow predators chase faster prey around obstacles."""

import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import BLUE, GRAY, ORANGE
from purerl.envs.particle import physics
from purerl.envs.particle.physics import ParticleState
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static

OBSTACLE = 0.2  # radius


@pytree
class PredatorPrey(Environment):
    """Every touch pays all predators `touch_reward` and costs that prey the same; prey pays for leaving [-1, 1]^2.

    Leaving costs, along each axis, 0 up to 0.9, 10 (|x| - 0.9) up to 1, then min(exp(2 |x| - 2), 10). Predators reach
    speed 1.0, prey 1.3. Observation of each agent, f32[2 + 2 + 2 M + 2 (N - 1) + 2 P]: its velocity and position, M
    obstacles and N - 1 other agents relative to it, and the velocities of the P prey, its own as zeros. The global
    state is all of these side by side. No bound on the return.

    Source: Lowe et al. (2017), arXiv:1706.02275, simple_tag; there prey does not see the velocities of prey as zeros,
    and so has a shorter observation.
    """

    num_predators: int = static(default=3, doc="predators", at_least=1)
    num_prey: int = static(default=1, doc="prey", at_least=1)
    num_obstacles: int = static(default=2, doc="obstacles", at_least=1)
    touch_reward: float = number(default=10.0, doc="reward of a touch for every predator, and its cost for the prey")
    time_limit: int = number(default=25, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[ParticleState, dict[str, Array]]:
        """Place everyone at random, and obstacles away from the border."""
        state = physics.begin(key, self._num_agents, self.num_obstacles, reach=0.9)
        return state, self.observe(state)

    def step(self, key: Key, state: ParticleState, action: dict[str, Array]) -> tuple[ParticleState, TimeStep]:
        """Move, then compute rewards."""
        radius, push, speed = (jnp.asarray(x) for x in self._bodies)
        taken = jnp.concatenate([action["predators"], action["prey"]])
        state = physics.move(state, taken, push=push, radius=radius, max_speed=speed, landmark_radius=OBSTACLE)
        hunters, prey = state.position[: self.num_predators], state.position[self.num_predators :]
        touches = (physics.distances(prey, hunters) < radius[0] + radius[-1]).astype(jnp.float32)
        reward = {
            "predators": jnp.full(self.num_predators, self.touch_reward * jnp.sum(touches)),
            "prey": -self.touch_reward * jnp.sum(touches, axis=1) - jnp.sum(_leaving(jnp.abs(prey)), axis=1),
        }
        info = {"touches": jnp.sum(touches)}
        return state, TimeStep.transition(self.observe(state), reward, time_up=state.time >= self.time_limit, info=info)

    def observe(self, state: ParticleState) -> dict[str, Array]:
        """Return the observations of predators and prey, and the global state."""
        n, place = self._num_agents, state.position
        marks = (state.landmark[None] - place[:, None]).reshape(n, -1)
        rest = (place[physics.others(n)] - place[:, None]).reshape(n, -1)
        own = np.arange(n)[:, None] == np.arange(self.num_predators, n)[None]
        speeds = jnp.where(own[..., None], 0.0, state.velocity[None, self.num_predators :]).reshape(n, -1)
        seen = jnp.concatenate([state.velocity, place, marks, rest, speeds], axis=1)
        parts = {"predators": seen[: self.num_predators], "prey": seen[self.num_predators :]}
        return parts | {"global_state": seen.reshape(-1)}

    @property
    def _num_agents(self) -> int:
        return self.num_predators + self.num_prey

    @property
    def _bodies(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return radius, push and maximum speed, f32[n] each."""
        one = lambda a, b: np.repeat(np.array([a, b], np.float32), [self.num_predators, self.num_prey])
        return one(0.075, 0.05), one(3.0, 4.0), one(1.0, 1.3)

    def render(self, state: ParticleState) -> np.ndarray:
        """Draw obstacles, predators (orange) and prey (blue): u8[H, W, 3]."""
        colors = [ORANGE] * self.num_predators + [BLUE] * self.num_prey
        bodies = [(float(radius), color) for radius, color in zip(self._bodies[0], colors, strict=True)]
        return physics.picture(state, bodies, (OBSTACLE, GRAY))

    @property
    def observation_space(self) -> Dict:
        """f32[..] for each agent; see the class."""
        size = 4 + 2 * self.num_obstacles + 2 * (self._num_agents - 1) + 2 * self.num_prey
        wide = lambda size: Box(low=-jnp.inf, high=jnp.inf, shape=(size,))
        groups = {"predators": self.num_predators, "prey": self.num_prey}
        parts = {name: Stacked(space=wide(size), n=n) for name, n in groups.items()}
        return Dict(spaces=parts | {"global_state": wide(size * self._num_agents)})

    @property
    def action_space(self) -> Dict:
        """The push of each agent."""
        groups = {"predators": self.num_predators, "prey": self.num_prey}
        return Dict(spaces={name: Stacked(space=Discrete(n=5), n=n) for name, n in groups.items()})


def _leaving(x: Array) -> Array:
    """Return the cost of a coordinate |x|."""
    return jnp.where(x < 0.9, 0.0, jnp.where(x < 1.0, 10.0 * (x - 0.9), jnp.minimum(jnp.exp(2.0 * x - 2.0), 10.0)))
