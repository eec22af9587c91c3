"""Spread: as many agents as landmarks; together they should cover all landmarks without collisions."""

import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import BLUE, GREEN
from purerl.envs.particle import physics
from purerl.envs.particle.physics import ParticleState
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Array, Environment, Key, TimeStep, number, pytree, static

RADIUS, PUSH = 0.15, 5.0


@pytree
class Spread(Environment):
    """All get (1 - own_share) times minus the sum over landmarks of the distance to the nearest agent.

    Each agent also gets -own_share for every other agent that it touches.

    Observation f32[4 + 2N + 2 (N - 1)] of each agent: its velocity and position, the landmarks and the other agents
    relative to it. The global state is the concatenation of all observations. Best possible return: below 0.

    Source: Lowe et al. (2017), arXiv:1706.02275, simple_spread, without its unused communication.
    """

    num_agents: int = static(default=3, doc="agents, and landmarks", at_least=2)
    own_share: float = number(default=0.5, doc="weight of an agent's own collisions", at_least=0, at_most=1)
    time_limit: int = number(default=25, doc="steps after which an episode is truncated", at_least=1)

    def reset(self, key: Key) -> tuple[ParticleState, dict[str, Array]]:
        """Place agents and landmarks at random."""
        state = physics.begin(key, self.num_agents, self.num_agents)
        return state, self.observe(state)

    def step(self, key: Key, state: ParticleState, action: dict[str, Array]) -> tuple[ParticleState, TimeStep]:
        """Move, then compute rewards."""
        each = jnp.ones(self.num_agents)
        bodies = {"push": PUSH * each, "radius": RADIUS * each, "max_speed": jnp.inf * each}
        state = physics.move(state, action["agents"], **bodies, landmark_radius=None)
        covered = -jnp.sum(jnp.min(physics.distances(state.landmark, state.position), axis=1))
        touches = physics.distances(state.position, state.position) < 2 * RADIUS
        collisions = jnp.sum(touches & ~jnp.eye(self.num_agents, dtype=jnp.bool_), axis=1, dtype=jnp.float32)
        reward = {"agents": (1.0 - self.own_share) * covered - self.own_share * collisions}
        info = {"collisions": jnp.sum(collisions) / 2}
        return state, TimeStep.transition(self.observe(state), reward, time_up=state.time >= self.time_limit, info=info)

    def observe(self, state: ParticleState) -> dict[str, Array]:
        """Return the agents' observations, and the global state."""
        n, place = self.num_agents, state.position
        marks = (state.landmark[None] - place[:, None]).reshape(n, -1)
        rest = (place[physics.others(n)] - place[:, None]).reshape(n, -1)
        seen = jnp.concatenate([state.velocity, place, marks, rest], axis=1)
        return {"agents": seen, "global_state": seen.reshape(-1)}

    def render(self, state: ParticleState) -> np.ndarray:
        """Draw landmarks and agents: u8[H, W, 3]."""
        return physics.picture(state, [(RADIUS, BLUE)] * self.num_agents, (0.05, GREEN))

    @property
    def observation_space(self) -> Dict:
        """f32[4N + 2] for each agent."""
        size = 4 * self.num_agents + 2
        wide = lambda size: Box(low=-jnp.inf, high=jnp.inf, shape=(size,))
        part = Stacked(space=wide(size), n=self.num_agents)
        return Dict(spaces={"agents": part, "global_state": wide(size * self.num_agents)})

    @property
    def action_space(self) -> Dict:
        """The push of each agent."""
        return Dict(spaces={"agents": Stacked(space=Discrete(n=5), n=self.num_agents)})
