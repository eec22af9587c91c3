"""Learning in tag, seed by seed: taggers against random runners, then runners against those taggers."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.timing import progress
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.tag.continuous import TagContinuous
from purerl.extensions.groups.joint import MultiAgentConfig, Policy, multi_agent, policies_for
from purerl.extensions.groups.policies import at_random
from purerl.training import make_train, make_trainer
from purerl.types import Array, Key, PyTree

LASTS = 300  # steps of the game in which runners survive: it leaves room for it
COMPARED = (
    ("tags of trained taggers", "tags of random taggers", "3 x"),
    (f"steps of {LASTS} of trained runners", f"steps of {LASTS} of random runners", "2 x"),
)


def play_seeds(env: TagContinuous, config: PPOConfig, steps: int, seeds: int, episodes: int) -> dict[str, np.ndarray]:
    """Return by name, f32[seeds]: tags per episode and steps that a runner survives, of random and trained agents.

    Args:
      env: the game in which taggers learn.
      config: PPO's settings, for both.
      steps: environment steps that each learns for.
      seeds: how often.
      episodes: played to count, actions drawn as in training.
    """
    train_taggers, train_runners, count = (jax.jit(part) for part in programs(env, config, steps, episodes))
    results = []
    for seed in range(seeds):
        began = time.perf_counter()
        keys = jax.random.split(jax.random.key(seed), 3)
        taggers = train_taggers(keys[0])
        runners = train_runners(keys[1], taggers)
        results.append(jax.device_get(count(keys[2], taggers, runners)))
        text = ", ".join(f"{name} {value:.1f}" for name, value in results[-1].items())
        progress(f"seed {seed}, {time.perf_counter() - began:.0f} s: {text}")
    return {name: np.array([result[name] for result in results]) for name in results[0]}


def programs(env: TagContinuous, config: PPOConfig, steps: int, episodes: int) -> tuple[Callable[..., Any], ...]:
    """Return (key -> taggers' agent, (key, that) -> runners' agent, (key, both) -> what they reach by name)."""
    lasting = dataclasses.replace(env, time_limit=LASTS)
    random = lambda group: Policy(algorithm=at_random, config=config, groups=(group,), frozen=True)
    fixed = lambda group, agent: Policy(algorithm=ppo, config=config, groups=(group,), frozen=True, agent=agent)
    policies = lambda **by_group: policies_for(env, ppo, config, **by_group)

    def train_taggers(key: Key) -> PyTree:
        chase = policies(runners=random("runners"))
        return make_train(multi_agent, env, chase, steps)(key)[0].agent["taggers"]

    def train_runners(key: Key, taggers: PyTree) -> PyTree:
        flee = policies(taggers=fixed("taggers", taggers))
        return make_train(multi_agent, lasting, flee, steps)(key)[0].agent["runners"]

    def play(game: TagContinuous, both: MultiAgentConfig, key: Key) -> tuple[Array, Array]:
        """Return (tags per episode, steps that a runner survives), means over episodes."""
        trainer = make_trainer(multi_agent, survival(game), both)
        agents = trainer.algorithm.init(key)  # those of fixed policies are what they were given
        returns = trainer.evaluate(agents, key, episodes, explore=True).group_return
        return returns["taggers"].mean() / env.tag_reward * env.num_taggers, returns["runners"].mean()

    def count(key: Key, taggers: PyTree, runners: PyTree) -> dict[str, Array]:
        aimless = random("runners")
        hunted = policies(taggers=fixed("taggers", taggers), runners=aimless)
        fleeing = policies(taggers=fixed("taggers", taggers), runners=fixed("runners", runners))
        return {
            COMPARED[0][1]: play(env, policies(taggers=random("taggers"), runners=aimless), key)[0],
            COMPARED[0][0]: play(env, hunted, key)[0],
            COMPARED[1][1]: play(lasting, hunted, key)[1],
            COMPARED[1][0]: play(lasting, fleeing, key)[1],
        }

    return train_taggers, train_runners, count


def survival(env: TagContinuous) -> TagContinuous:
    """Return the game where a runner's return is the number of steps that it survives."""
    return dataclasses.replace(env, step_reward=1.0, tag_penalty=0.0, end_of_game_reward=0.0)
