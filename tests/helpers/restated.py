"""An environment that states what it shows in other units."""

from purerl.spaces import Box, Dict
from purerl.types import Environment, number, pytree, static


@pytree
class Restated(Environment):
    """An environment whose observations are scaled and shifted, or come with a state that only critics see."""

    env: Environment = number()
    scale: float = number(default=1.0)
    offset: float = number(default=0.0)
    privileged: bool = static(default=False)

    def _seen(self, observation):
        seen = self.scale * observation + self.offset
        return {"observation": seen, "global_state": 3.0 * observation} if self.privileged else seen

    def reset(self, key):
        state, observation = self.env.reset(key)
        return state, self._seen(observation)

    def step(self, key, state, action):
        state, step = self.env.step(key, state, action)
        return state, step._replace(observation=self._seen(step.observation))

    action_space = property(lambda self: self.env.action_space)

    @property
    def observation_space(self):
        box = Box(low=-1e6, high=1e6, shape=self.env.observation_space.shape)
        return Dict(spaces={"observation": box, "global_state": box}) if self.privileged else box
