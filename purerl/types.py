"""The contracts of environments, algorithms, rollouts and configs."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError
from purerl.fields import PyTree, number, pytree, static
from purerl.spaces import Space

Array = jax.Array
Key = jax.Array
Metrics = dict[str, jax.Array]
LEARNING = "learning"  # a metric of algorithms that do not learn in every update: 1 if they did, otherwise 0


class TimeStep(NamedTuple):
    """One step of one environment, without a batch axis. `transition` builds it, with flags that agree.

    Example:
      >>> import jax.numpy as jnp
      >>> import purerl
      >>> step = purerl.TimeStep.transition(jnp.zeros(4), 1.0, time_up=jnp.array(True))
      >>> bool(step.terminated), bool(step.truncated)
      (False, True)
    """

    observation: PyTree  # after the step; at the end of an episode the final observation
    reward: PyTree  # f32[]; with several agents {group: f32[n]}
    terminated: Array  # bool[], the task ended: the value of the next state is 0
    truncated: Array  # bool[], time ran out: bootstrap from `observation`; never together with `terminated`
    info: Mapping[str, Array]  # {name: f32[]}: numbers for the episode statistics, {} if there are none

    @classmethod
    def transition(
        cls,
        observation: PyTree,
        reward: PyTree,
        *,
        terminated: Array | bool = False,
        time_up: Array | bool = False,
        info: Mapping[str, Array] | None = None,
    ) -> "TimeStep":
        """Return a step: `terminated` if the task ended, `truncated` if only the time limit was reached.

        Args:
          observation: the observation of the state after the step, even if the episode ended.
          reward: f32[]; with several agents {group: f32[n]}.
          terminated: bool[], the task ended.
          time_up: bool[], the time limit is reached; ignored if the task ended.
          info: {name: f32[]}.
        """
        terminated = jnp.asarray(terminated, jnp.bool_)
        truncated = jnp.asarray(time_up, jnp.bool_) & ~terminated
        return cls(
            observation=observation, reward=reward, terminated=terminated, truncated=truncated, info=dict(info or {})
        )

    def truncate(self, time_up: Array) -> "TimeStep":
        """Return the step, also truncated if the time limit, bool[], is reached and the task has not ended."""
        return self._replace(truncated=self.truncated | (time_up & ~self.terminated))

    @property
    def done(self) -> Array:
        """bool[]: whether the episode ended with this step: terminated or truncated."""
        return self.terminated | self.truncated


class Environment:
    """A task as two pure functions. Subclasses are frozen dataclasses made by `@pytree`: their fields are parameters.

    In a dict observation, "action_mask" marks the legal actions. Only critics of actor-critic algorithms see
    "global_state", in training.

    A number field may be traced, so one compiled program serves every value, and `jax.vmap` trains on many values.

    An environment of several agents puts them into groups. Action, reward and observation are dicts from a group's name
    to arrays with a leading axis of its agents, and the spaces are `Dict`s of `Stacked`. Three more names in the
    observation are not for policies. "active", {group: bool[n]}, marks the agents that are still in the game; without
    it, all are. "turn", {group: bool[n]}, marks the agents whose action counts, if agents take turns. "global_state" is
    the input of a centralized critic. An episode ends for all agents at once.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import purerl
      >>> env = purerl.make("Catch")
      >>> state, observation = env.reset(jax.random.key(0))
      >>> state, step = env.step(jax.random.key(1), state, jnp.array(0))
      >>> step.observation.shape, bool(step.terminated)
      ((10, 5), False)
    """

    def reset(self, key: Key) -> tuple[PyTree, PyTree]:
        """Start an episode.

        Returns:
          (state, observation); the state is a pytree of arrays.
        """
        raise NotImplementedError

    def step(self, key: Key, state: PyTree, action: PyTree) -> tuple[PyTree, TimeStep]:
        """Advance by one action. It never starts a new episode by itself.

        Returns:
          (state, time step), the state of the same structure, shapes and dtypes as before.
        """
        raise NotImplementedError

    def observe(self, state: PyTree) -> PyTree:
        """Return the observation of a state, if it is a cheap function of only the state. Optional.

        It must equal the observation that `reset` and `step` return. `vectorize` then observes the states to act on
        instead of choosing between the observations of a reset and of a step, so define it only where it is cheaper
        than that choice.
        """
        raise NotImplementedError

    def render(self, state: PyTree) -> np.ndarray:
        """Draw a state, on the host: u8[height, width, 3]. Optional.

        Raises:
          InputError: if the environment has no picture.
        """
        raise InputError(f"{type(self).__name__} has no picture: it does not define render(state)")

    def render_episode(self, states: list[PyTree]) -> list[np.ndarray]:
        """Draw the states of an episode in order; override it if a picture depends on earlier states."""
        return [self.render(state) for state in states]

    def render_text(self, state: PyTree) -> str:
        """Return a state as lines of text, on the host: a map if there is one, otherwise the state's numbers."""
        names = ((jax.tree_util.keystr(path, simple=True), x) for path, x in jax.tree.leaves_with_path(state))
        return "\n".join(f"{name:18} {np.array2string(np.asarray(x), precision=3)}" for name, x in names)

    def action_text(self, action: int) -> str:
        """Return the name of a discrete action for people; its number if it has no name."""
        return str(action)

    @property
    def observation_space(self) -> Space:
        """The space of `TimeStep.observation`."""
        raise NotImplementedError

    @property
    def action_space(self) -> Space:
        """The space of the actions that `step` takes."""
        raise NotImplementedError


class EnvironmentSpec(NamedTuple):
    """The spaces of an environment: everything that an algorithm gets to see of it.

    Example:
      >>> import purerl
      >>> env = purerl.make("CartPole-v1")
      >>> spec = purerl.EnvironmentSpec(observation_space=env.observation_space, action_space=env.action_space)
      >>> spec.action_space.n
      2
    """

    observation_space: Space
    action_space: Space


class Rollout(NamedTuple):
    """T steps of B environments: time is the first axis, batch the second.

    Example:
      >>> import purerl
      >>> purerl.Rollout._fields[:3]
      ('observation', 'action', 'reward')
    """

    observation: PyTree  # [T, B, ...], as passed to `act`
    action: PyTree  # [T, B, ...]
    reward: PyTree  # f32[T, B]; with several agents {group: f32[T, B, n]}
    terminated: Array  # bool[T, B]
    truncated: Array  # bool[T, B]
    next_observation: PyTree  # [T, B, ...], after the step; the final observation where an episode ended
    extras: PyTree  # [T, B, ...], what `act` returned in addition to the action, such as log-probabilities
    carry: PyTree  # [B, ...], the recurrent state before the first step; () without one
    mask: Array | None = None
    # bool[T, B], False where a step must not count: an agent that has left, a step that only reset a host environment.
    # It follows an ended step (or another such step), so that no return flows out of it. None: all steps count.
    # If the first step of a rollout does not count and is truncated, the previous episode was cut off there
    statistics: PyTree = None
    # [B, ...], the running statistics that normalized observations for acting, if an older agent acted than the one
    # that learns; None: the agent's
    cut: Array | None = None
    # bool[T, B], where a step is truncated only because no later one of the rollout counts: the episode continues in
    # the next rollout, with the step's successor. None: nowhere

    @property
    def done(self) -> Array:
        """bool[T, B]: whether the episode ended with this step, for any reason, or is cut there."""
        return self.terminated | self.truncated

    @property
    def time_up(self) -> Array:
        """bool[T, B]: whether the episode itself was truncated with this step."""
        return self.truncated if self.cut is None else self.truncated & ~self.cut


class Act(Protocol):
    """The function by which an agent acts in B environments: `Algorithm.act`."""

    def __call__(
        self, agent: PyTree, carry: PyTree, key: Key, observation: PyTree, explore: bool, /
    ) -> tuple[PyTree, PyTree, PyTree]:
        """Choose actions.

        Args:
          agent: from `init` or `update`.
          carry: [B, ...], recurrent state; () without one.
          key: one for all environments.
          observation: [B, ...].
          explore: True: act as in training; False: greedily.

        Returns:
          (action [B, ...], carry [B, ...], extras [B, ...]); `update` finds the extras in `Rollout.extras`.
        """
        ...


class Values(NamedTuple):
    """A critic's estimates for a rollout, and the rewards in the same units."""

    value: Array  # f32[T, B], of each observation
    next_value: Array  # f32[T, B], of `next_observation`
    reward: Array  # f32[T, B]
    scale: Callable[[Array], Array]  # returns f32[...] in units of the reward -> in the critic's units


class EstimateValues(Protocol):
    """The function by which an agent's critic evaluates a rollout: `Algorithm.values`."""

    def __call__(self, agent: PyTree, rollout: Rollout, /) -> Values:
        """Estimate the values of a rollout without learning from it.

        Args:
          agent: from `init` or `update`.
          rollout: [T, B], as the loop collected it: observations and rewards are not normalized.

        Returns:
          Values f32[T, B].
        """
        ...


class Likelihood(NamedTuple):
    """The policy of an agent in the states of a rollout."""

    log_prob: Array  # f32[T, B], of the actions taken
    entropy: Array  # f32[T, B]


class EvaluatePolicy(Protocol):
    """The function that evaluates an agent's policy at the actions of a rollout: `Algorithm.likelihood`."""

    def __call__(self, agent: PyTree, rollout: Rollout, /) -> Likelihood:
        """Evaluate the policy in the states of a rollout; differentiable with respect to the agent's parameters.

        Args:
          agent: from `init` or `update`.
          rollout: [T, B], as the loop collected it: observations are not normalized.

        Returns:
          Likelihood f32[T, B].
        """
        ...


class Algorithm(NamedTuple):
    """An algorithm as four pure functions. `agent`, a pytree of arrays, holds everything that it learns.

    If its critic estimates state values, an algorithm may also define `values`. If it learns from each rollout once, by
    differentiable updates, it may define `likelihood`, which meta-gradients need.

    Example:
      >>> import purerl
      >>> from purerl.algos.ppo import PPOConfig, ppo
      >>> env = purerl.make("CartPole-v1")
      >>> spec = purerl.EnvironmentSpec(observation_space=env.observation_space, action_space=env.action_space)
      >>> callable(ppo(spec, PPOConfig()).update)
      True
    """

    init: Callable[[Key], PyTree]  # key -> agent
    initial_carry: Callable[[int], PyTree]  # num_envs -> carry [B, ...] at the start of an episode; () without one
    act: Act  # (agent, carry, key, observation [B, ...], explore) -> (action [B, ...], carry, extras [B, ...])
    update: Callable[[PyTree, Key, Rollout], tuple[PyTree, Metrics]]
    # (agent, key, rollout [T, B]) -> (agent, metrics: {name: f32[]}); if `LEARNING` is among them and 0, only it counts
    values: EstimateValues | None = None  # (agent, rollout [T, B]) -> Values; None: no critic of states
    likelihood: EvaluatePolicy | None = None  # (agent, rollout [T, B]) -> Likelihood; None: no meta-gradients


@pytree
class Config:
    """The settings of every algorithm.

    Example:
      >>> import purerl
      >>> purerl.Config(num_envs=8).steps_per_update
      1024
    """

    num_envs: int = static(default=4, doc="environments stepped in parallel", at_least=1)
    rollout_length: int = static(default=128, doc="steps of each environment per update", at_least=1)
    total_timesteps: int = number(
        default=500_000, doc="environment steps of the whole run; the horizon of every schedule", above=0
    )
    discount: float = number(default=0.99, doc="discount of future rewards, per step", at_least=0, at_most=1)
    prng: str = static(
        default="fast",
        doc="random number generator of environments and algorithm; fast is the fastest",
        choices=("fast", "threefry", "rbg"),
    )
    reset_policy: str = static(
        default="auto",
        doc="resets: computed ahead (prefetch), at each step (always), or sampled from a pool; auto: prefetch on a CPU",
        choices=("auto", "prefetch", "always", "pool"),
    )
    pool_size: int = static(default=1024, doc="reset states in a pool", at_least=1)
    plans: ClassVar[int] = 0
    # for how many players the algorithm plans in the environment itself: 0, 1, or 2 that take turns

    @property
    def steps_per_update(self) -> int:
        """Environment steps between two updates: num_envs x rollout_length."""
        return self.num_envs * self.rollout_length

    @property
    def samples_per_gradient(self) -> int:
        """Environment steps in the batch of a gradient step; a whole rollout unless an algorithm overrides it."""
        return self.steps_per_update

    def resumed(self) -> Self:
        """Return the config of a resumed run: data that it read from files is in the checkpoint."""
        return self


AlgorithmFactory = Callable[[EnvironmentSpec, Any], Algorithm]
