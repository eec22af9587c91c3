"""Pictures of episodes: play one, draw its states, save them as a GIF."""

import pathlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from purerl import agent_groups
from purerl.errors import InputError, kind_of
from purerl.host_environment import HostSource
from purerl.prng import fast
from purerl.reporting.files import write_named
from purerl.types import Algorithm, Array, Environment, Key, PyTree


class PlayPolicy(NamedTuple):
    """A function that chooses the actions of one environment."""

    carry: PyTree  # at the start of an episode; () without one
    act: Callable[[PyTree, Key, PyTree], tuple[PyTree, PyTree]]  # (memory, key, observation) -> (action, carry)


class InProgram(Protocol):
    """A host policy that can also act inside a program, like `run.policy()`."""

    def in_program(self, env: Environment) -> PlayPolicy:
        """Return the policy for a program that plays `env`."""
        ...


class Episode(NamedTuple):
    """A complete episode as NumPy arrays, L steps."""

    state: PyTree  # [L + 1, ...], the first one before any step
    action: PyTree  # [L, ...]
    reward: PyTree  # f32[L]; with several agents {group: f32[L, n]}
    done: bool  # False: cut off by `max_steps`


def random_policy(env: Environment) -> PlayPolicy:
    """Return the policy that samples the action space, or the legal actions if a mask is observed."""

    return PlayPolicy(
        (), lambda carry, key, observation: (agent_groups.draw(env.action_space, key, observation), carry)
    )


def scripted_policy(function: Callable[[Key, PyTree], PyTree]) -> PlayPolicy:
    """Return the policy of a function (key, observation) -> action."""
    return PlayPolicy((), lambda carry, key, observation: (function(key, observation), carry))


def agent_policy(algorithm: Algorithm, agent: PyTree, explore: bool = False) -> PlayPolicy:
    """Return the policy of one trained agent.

    Args:
      algorithm: what trained it.
      agent: `state.agent` of a `TrainState` (one seed's).
      explore: act as in training instead of greedily.
    """

    def act(carry: PyTree, key: Key, observation: PyTree) -> tuple[PyTree, PyTree]:
        batch = jax.tree.map(lambda x: jnp.asarray(x)[None], observation)
        action, carry, _ = algorithm.act(agent, carry, key, batch, explore)
        return jax.tree.map(lambda x: x[0], action), carry

    return PlayPolicy(algorithm.initial_carry(1), act)


def play(env: Environment, policy: PlayPolicy | InProgram, key: Key, max_steps: int = 1000) -> Episode:
    """Play one episode, to its end or for `max_steps` steps, as one compiled program.

    Args:
      env: any pure environment.
      policy: `run.policy()` of a trained run; or see `random_policy` and `agent_policy`.
      key: the PRNG key of the start and of all randomness.
      max_steps: the number of steps after which the episode is cut off.

    Returns:
      The states, actions and rewards of the episode.

    Raises:
      InputError: if the environment does not run in JAX, or `policy` is not a policy.

    Example:
      >>> import jax
      >>> import purerl
      >>> run = purerl.load_run("zoo/ppo-CartPole-v1")
      >>> episode = purerl.play(purerl.make("CartPole-v1"), run.policy(), jax.random.key(0), max_steps=20)
      >>> type(episode).__name__
      'Episode'
    """
    if isinstance(env, HostSource):
        raise InputError(f"{env.id} runs on the host; only JAX environments can be played and drawn")
    if not isinstance(env, Environment) and not callable(getattr(env, "reset", None)):
        raise InputError(f"env is {kind_of(env)}; it must be an environment, such as purerl.make('CartPole-v1')")
    in_program = getattr(policy, "in_program", None)
    if not isinstance(policy, PlayPolicy) and in_program is None:
        raise InputError(
            f"policy is {kind_of(policy)}; it must be run.policy() of a trained run, or from "
            "random_policy, scripted_policy or agent_policy of purerl.reporting.render"
        )
    if not max_steps >= 1:
        raise InputError(f"max_steps is {max_steps}; it must be at least 1")
    playing = policy if isinstance(policy, PlayPolicy) else policy.in_program(env)
    return player(env, lambda _: playing, max_steps)((), key)


def player(
    env: Environment, policy_of: Callable[[PyTree], PlayPolicy], max_steps: int = 1000
) -> Callable[[PyTree, Key], Episode]:
    """Return a function (agent, key) -> episode, compiled once for all agents; other arguments as for `play`."""

    def run(agent: PyTree, key: Key) -> tuple[PyTree, tuple, Array]:
        policy = policy_of(agent)

        def step(loop_carry: tuple, key: Key) -> tuple[tuple, tuple]:
            state, observation, carry, over = loop_carry
            key_act, key_step = jax.random.split(key)
            action, carry = policy.act(carry, key_act, observation)
            state, timestep = env.step(key_step, state, action)
            out = (state, action, timestep.reward, over)
            return (state, timestep.observation, carry, over | timestep.terminated | timestep.truncated), out

        keys = jax.random.split(key, max_steps + 1)
        state, observation = env.reset(keys[0])
        loop_carry, out = jax.lax.scan(step, (state, observation, policy.carry, jnp.zeros((), jnp.bool_)), keys[1:])
        return state, out, loop_carry[-1]

    compiled = jax.jit(run)

    def play_one(agent: PyTree, key: Key) -> Episode:
        first, (state, action, reward, over), done = jax.tree.map(np.asarray, compiled(agent, fast(key)))
        length = int((~over).sum())
        state = jax.tree.map(lambda a, b: np.concatenate([a[None], b[:length]]), first, state)
        action, reward = jax.tree.map(lambda x: x[:length], (action, reward))
        return Episode(state=state, action=action, reward=reward, done=bool(done))

    return play_one


def length_of(episode: Episode) -> int:
    """Return L, the number of steps of an episode."""
    return len(jax.tree.leaves(episode.reward)[0])


def frames(env: Environment, episode: Episode) -> list[np.ndarray]:
    """Draw every state of an episode: a list of u8[H, W, 3].

    Raises:
      InputError: if the environment has no picture.
    """
    return env.render_episode(each(episode))


def frames_text(env: Environment, episode: Episode) -> list[str]:
    """Return every state of an episode as text."""
    return [env.render_text(state) for state in each(episode)]


def show_text(texts: Sequence[str], fps: float | None) -> None:
    """Print frames of text at `fps` per second in place; below one another if it is None."""
    for text in texts:
        print(text if fps is None else f"\033[H\033[2J{text}", end="\n\n" if fps is None else "\n", flush=True)
        if fps is not None:
            time.sleep(1 / fps)


def each(episode: Episode) -> list[PyTree]:
    """Return the states of an episode one by one, starting with the first."""
    return [jax.tree.map(lambda x, t=t: x[t], episode.state) for t in range(length_of(episode) + 1)]


def record(env: Environment, policy: PlayPolicy, key: Key, max_steps: int = 1000) -> list[np.ndarray]:
    """Play one episode and draw it: a list of u8[H, W, 3], starting with the first state.

    Raises:
      InputError: if the environment has no picture.
    """
    return frames(env, play(env, policy, key, max_steps))


def save_gif(images: Sequence[np.ndarray], path: str | pathlib.Path, fps: float = 30.0) -> None:
    """Save pictures of one size as an endlessly repeating animation.

    Args:
      images: u8[H, W, 3] each.
      path: where to, ending in .gif; its folder must exist.
      fps: pictures per second; GIF rounds to hundredths of a second, and viewers slow down above 50.

    Raises:
      InputError: if there is nothing to save, the pictures differ in size, or the file cannot be written.
    """
    from PIL import Image

    if not len(images):
        raise InputError("there are no pictures to save")
    if len({image.shape for image in images}) != 1:
        raise InputError("the pictures of an animation must have one size")
    if not 0 < fps <= 100:
        raise InputError(f"fps is {fps}; it must be above 0 and at most 100")
    # A palette for each: what is seen for a moment would be lost in one that all share.
    reduce = lambda image: Image.fromarray(image).quantize(255, dither=Image.Dither.NONE)
    first, *rest = [reduce(image) for image in images]
    milliseconds = max(10, round(100 / fps) * 10)
    write_named(
        pathlib.Path(path),
        lambda file: first.save(file, "GIF", save_all=True, append_images=rest, duration=milliseconds, loop=0),
    )
