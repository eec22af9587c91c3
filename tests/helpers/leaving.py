"""A small game of two groups, of which agents leave: for what is the same in every game, and compiles in an instant."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Environment, TimeStep, number, pytree, static


class Ring(NamedTuple):
    """Where all are, and who is still there."""

    runners: jax.Array  # f32[n]
    taggers: jax.Array  # f32[m]
    active: jax.Array  # bool[n]
    time: jax.Array  # i32[]


@pytree
class Leaving(Environment):
    """Runners and taggers step along a line; a tagger takes each runner that is near, and chance takes some."""

    chance: float = number(default=0.1)
    time_limit: int = number(default=20)
    num_runners: int = static(default=4)
    num_taggers: int = static(default=2)

    def reset(self, key):
        place = lambda key, n: jax.random.uniform(key, (n,), minval=-1.0, maxval=1.0)
        keys = jax.random.split(key)
        active = jnp.ones(self.num_runners, jnp.bool_)
        state = Ring(place(keys[0], self.num_runners), place(keys[1], self.num_taggers), active, jnp.int32(0))
        return state, self.observe(state)

    def step(self, key, state, action):
        move = lambda place, action: jnp.clip(place + 0.1 * (action.astype(jnp.float32) - 1.0), -1.0, 1.0)
        runners, taggers = move(state.runners, action["runners"]), move(state.taggers, action["taggers"])
        near = jnp.abs(runners[:, None] - taggers[None]) < 0.05
        taken = near.any(1) | (jax.random.uniform(key, runners.shape) < self.chance)
        state = Ring(runners, taggers, state.active & ~taken, state.time + 1)
        reward = {"runners": state.active.astype(jnp.float32), "taggers": near.any(0).astype(jnp.float32) + taggers}
        over = ~state.active.any()
        limit = (state.time >= self.time_limit) & ~over
        step = TimeStep(observation=self.observe(state), reward=reward, terminated=over, truncated=limit, info={})
        return state, step

    def observe(self, state):
        mean = jnp.mean(state.taggers)
        sees = lambda place: jnp.stack([place, jnp.broadcast_to(mean, place.shape)], axis=-1)
        everyone = jnp.ones(self.num_taggers, jnp.bool_)
        active = {"runners": state.active, "taggers": everyone}
        return {"runners": sees(state.runners), "taggers": sees(state.taggers), "active": active}

    @property
    def observation_space(self):
        group = lambda n: Stacked(space=Box(low=-1, high=1, shape=(2,)), n=n)
        flags = lambda n: Box(low=0, high=1, shape=(n,), dtype=jnp.bool_)
        sizes = {"runners": self.num_runners, "taggers": self.num_taggers}
        active = Dict(spaces={name: flags(n) for name, n in sizes.items()})
        return Dict(spaces={name: group(n) for name, n in sizes.items()} | {"active": active})

    @property
    def action_space(self):
        group = lambda n: Stacked(space=Discrete(n=3), n=n)
        return Dict(spaces={"runners": group(self.num_runners), "taggers": group(self.num_taggers)})
