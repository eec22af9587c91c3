"""The particles' world: discs with drag that push one another away."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.drawing import PAPER, Canvas, Color
from purerl.types import Array, Key

DAMPING, TIME_STEP, CONTACT_FORCE, CONTACT_MARGIN = 0.25, 0.1, 100.0, 1e-3
PUSHES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.float32)  # directions of actions 0 .. 4


class ParticleState(NamedTuple):
    """The agents, and landmarks that do not move."""

    position: Array  # f32[n, 2]
    velocity: Array  # f32[n, 2]
    landmark: Array  # f32[m, 2]
    time: Array  # i32[], steps taken


def begin(key: Key, num_agents: int, num_landmarks: int, reach: float = 1.0) -> ParticleState:
    """Return agents at rest, uniform in [-1, 1]^2, and landmarks uniform in [-reach, reach]^2."""
    key_agent, key_landmark = jax.random.split(key)
    position = jax.random.uniform(key_agent, (num_agents, 2), jnp.float32, -1.0, 1.0)
    landmark = jax.random.uniform(key_landmark, (num_landmarks, 2), jnp.float32, -reach, reach)
    return ParticleState(position=position, velocity=jnp.zeros((num_agents, 2)), landmark=landmark, time=jnp.int32(0))


def move(
    state: ParticleState, action: Array, push: Array, radius: Array, max_speed: Array, landmark_radius: float | None
) -> ParticleState:
    r"""Move all agents by one step.

        v' = v (1 - damping) + (push u + contact) dt, shortened to max_speed;  x' = x + v' dt

    Two discs that overlap push each other apart with force 100 k log(1 + exp((r_i + r_j - |d|) / k)), k = 0.001.

    Args:
      state: before.
      action: i32[n], 0 nothing, 1 and 2 along x, 3 and 4 along y.
      push, radius, max_speed: f32[n] of the agents.
      landmark_radius: the radius of landmarks that block the way; None: they do not.
    """
    force = push[:, None] * jnp.asarray(PUSHES)[action]
    force = force + jnp.sum(_contact(state.position, state.position, radius, radius, same=True), axis=1)
    if landmark_radius is not None:
        width = jnp.full(state.landmark.shape[0], landmark_radius)
        force = force + jnp.sum(_contact(state.position, state.landmark, radius, width, same=False), axis=1)
    velocity = state.velocity * (1.0 - DAMPING) + force * TIME_STEP
    speed = jnp.sqrt(jnp.sum(velocity**2, axis=1) + 1e-12)
    velocity = velocity * jnp.minimum(1.0, max_speed / speed)[:, None]
    position = state.position + velocity * TIME_STEP
    return ParticleState(position=position, velocity=velocity, landmark=state.landmark, time=state.time + 1)


def _contact(x: Array, y: Array, r: Array, s: Array, same: bool) -> Array:
    """Return the force on each x from each y, f32[n, m, 2]."""
    apart = x[:, None] - y[None]
    distance = jnp.sqrt(jnp.sum(apart**2, axis=-1) + 1e-12)
    depth = CONTACT_MARGIN * jax.nn.softplus((r[:, None] + s[None] - distance) / CONTACT_MARGIN)
    force = (CONTACT_FORCE * depth / distance)[..., None] * apart
    return jnp.where(jnp.eye(x.shape[0], dtype=jnp.bool_)[..., None], 0.0, force) if same else force


def distances(x: Array, y: Array) -> Array:
    """Return f32[n, m] between points f32[n, 2] and f32[m, 2]."""
    return jnp.sqrt(jnp.sum((x[:, None] - y[None]) ** 2, axis=-1) + 1e-12)


def others(n: int) -> np.ndarray:
    """Return for every agent the numbers of the others, i32[n, n - 1]."""
    column = np.arange(n - 1)[None]
    return (column + (column >= np.arange(n)[:, None])).astype(np.int32)


def picture(state: ParticleState, agents: list[tuple[float, Color]], landmark: tuple[float, Color]) -> np.ndarray:
    """Draw landmarks and agents with the given radii and colors: u8[H, W, 3]."""
    canvas = Canvas((-1.5, 1.5), (-1.5, 1.5), width=320)
    canvas.rectangle((-1, -1), (1, 1), PAPER)
    for place in np.asarray(state.landmark):
        canvas.circle(tuple(place), *landmark)
    for place, (radius, color) in zip(np.asarray(state.position), agents, strict=True):
        canvas.circle(tuple(place), radius, color)
    return canvas.pixels()
