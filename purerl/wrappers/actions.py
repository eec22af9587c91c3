"""Wrappers of actions and rewards: sticky actions, action repeat, reward scale and clip."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from purerl.fields import number, pytree, static
from purerl.spaces import Space, unstacked
from purerl.types import Key, PyTree, TimeStep
from purerl.wrappers.base import Wrapped, Wrapper, shown_space
from purerl.xla.trees import where


@pytree
class StickyActions(Wrapper):
    """With `probability`, repeats the previous action instead of the given one; the first action is never replaced.

    Source: Machado et al. (2018), arXiv:1709.06009.
    """

    keeps_state: ClassVar[bool] = True
    probability: float = number(default=0.25, doc="probability of repeating the previous action", at_least=0, at_most=1)

    def reset(self, key: Key) -> tuple[Wrapped, PyTree]:
        """Start an episode, without a previous action."""
        state, observation = self.env.reset(key)
        return Wrapped(state, (self.env.action_space.zeros(), jnp.zeros((), jnp.bool_))), observation

    def step(self, key: Key, state: Wrapped, action: PyTree) -> tuple[Wrapped, TimeStep]:
        """Choose between the given and the previous action, then step."""
        key_sticky, key_step = jax.random.split(key)
        before, was_taken = state.outer
        sticky = jax.random.bernoulli(key_sticky, self.probability) & was_taken
        action = where(sticky, before, action)
        inner, step = self.env.step(key_step, state.inner, action)
        return Wrapped(inner, (action, jnp.ones((), jnp.bool_))), step


@pytree
class ActionRepeat(Wrapper):
    """Repeats every action `num_repeats` times, or until the episode ends, and sums the rewards."""

    num_repeats: int = static(default=4, doc="steps per action", at_least=1)

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step several times: the last step, with the sum of the rewards."""
        keys = jax.random.split(key, self.num_repeats)
        first = self.env.step(keys[0], state, action)

        def repeat(carry: tuple[PyTree, TimeStep], key: Key) -> tuple[tuple[PyTree, TimeStep], None]:
            state, step = carry
            new_state, new_step = self.env.step(key, state, action)
            new_step = new_step._replace(reward=jax.tree.map(jnp.add, step.reward, new_step.reward))
            return where(step.done, carry, (new_state, new_step)), None

        return jax.lax.scan(repeat, first, keys[1:])[0]

    @property
    def observation_space(self) -> Space:
        """The wrapped environment's space; its stacks no longer hold the frames of consecutive steps."""
        return shown_space(lambda one: unstacked(one.observation_space), self.env)


@pytree
class RewardScale(Wrapper):
    """Multiplies every reward by `scale` after adding `shift`."""

    scale: float = number(default=1.0, doc="factor")
    shift: float = number(default=0.0, doc="added first")

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step and scale."""
        state, step = self.env.step(key, state, action)
        return state, step._replace(reward=jax.tree.map(lambda r: (r + self.shift) * self.scale, step.reward))


@pytree
class RewardClip(Wrapper):
    """Clips every reward to `low` .. `high`."""

    low: float = number(default=-1.0, doc="lowest reward")
    high: float = number(default=1.0, doc="highest reward")

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Step and clip."""
        state, step = self.env.step(key, state, action)
        return state, step._replace(reward=jax.tree.map(lambda r: jnp.clip(r, self.low, self.high), step.reward))
