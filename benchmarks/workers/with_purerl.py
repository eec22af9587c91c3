"""purerl itself."""

import time
from typing import Any

from protocol import compiled, last_tenth, serve


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile the training of one seed, or of several, with the devices and threads of `purerl train`."""
    import jax

    import purerl
    from purerl import registry
    from purerl.devices import selection, sharding, threads
    from purerl.extensions.self_play.sides import both_sides
    from purerl.host_environment import HostSource
    from purerl.xla import backend

    factory, cls = registry.algorithm(task["algorithm"])
    config = cls(**{name: tuple(x) if isinstance(x, list) else x for name, x in task["settings"].items()})
    seeds, parameters = task["seeds"], task["parameters"] or {}
    with threads.fitting(config, task["environment"], parameters):
        mesh = selection.choose("auto", (), seeds, config.num_envs)
    env = purerl.make(task["environment"], **parameters)
    if isinstance(env, HostSource):
        trainer = purerl.make_trainer(factory, env, config)
        return on_host(trainer, task["steps"], task["steps"] // config.steps_per_update)
    env = both_sides(env) if task["self_play"] else env
    if task["evolves"]:
        return generation(env, factory, config, task)
    train = purerl.make_train(factory, env, config, task["steps"])
    several = sharding.sharded_vmap(train, mesh, "seed") if seeds > 1 else lambda keys: train(keys[0])
    keys = lambda seed: sharding.place(jax.random.split(jax.random.key(seed), seeds), mesh, "seed")
    seconds, program = compiled(several, keys(0), backend.compiler_options())
    return seconds, lambda seed: (program(keys(seed))[1], task["steps"])


def generation(env: Any, factory: Any, config: Any, task: dict[str, Any]) -> tuple[float, Any]:
    """Compile the first generation of an evolution of LPO that starts at PPO's clip."""
    import jax

    from purerl.evolution.inner_loop import Plug, Task
    from purerl.evolution.plan import EvolveOptions, python_plan
    from purerl.functional.drifts import LPO
    from purerl.functional.objectives import Drifting
    from purerl.xla import backend

    one = Task(name=task["environment"], env=env, config=config, total_timesteps=task["steps"])
    start = Drifting(drift=LPO.at_ppo(jax.random.key(0)))
    options = EvolveOptions(population=task["seeds"], generations=1)
    plan = python_plan(options, start, Plug(factory, "objective"), [one])
    evolution = plan.method(None, plan.mesh)
    first = lambda seed: jax.jit(evolution.init)(jax.random.key(seed))
    seconds, program = compiled(evolution.step, first(0), backend.compiler_options())
    return seconds, lambda seed: (program(first(seed))[1], task["steps"])


def on_host(trainer: Any, steps: int, num_updates: int) -> tuple[float, Any]:
    """Compile the programs of host environments' loop by two updates."""
    import jax

    def train(seed: int, num_updates: int = num_updates) -> Any:
        state, told = trainer.init(jax.random.key(seed)), []
        for _ in range(num_updates):
            state, metrics = trainer.step(state)
            told.append(metrics)
        jax.block_until_ready(state.agent)
        trainer.close()
        return told, steps

    began = time.perf_counter()
    train(0, 2)
    return time.perf_counter() - began, train


def read(done: Any) -> float:
    """Return the mean return over seeds and the end of the run, or the whole run for an evolution's candidates."""
    import numpy as np

    told, _ = done
    if hasattr(told, "fitness"):  # an evolution's candidates
        return float(np.mean(told.fitness))
    returns = episode_returns(told)
    return last_tenth(returns, ~np.isnan(returns))


def curve(done: Any) -> list[tuple[int, float]]:
    """Return, for a hundred moments of the run, its steps and the mean return over the tenth of a run before it."""
    import numpy as np

    told, steps = done
    if hasattr(told, "fitness"):
        return []
    returns = episode_returns(told)
    tail = max(len(returns) // 10, 1)
    ends = sorted({max(len(returns) * part // 100, tail) for part in range(1, 101)})
    ended = ~np.isnan(returns)
    return [(steps * end // len(returns), last_tenth(returns[:end], ended[:end], tail)) for end in ends]


def episode_returns(told: Any) -> Any:
    """Return the mean return of the episodes that ended in each update, f32[updates, ...]; NaN where none did."""
    import numpy as np

    if isinstance(told, list):  # an entry for each update
        return np.array([metrics.episodes["episode_return"] for metrics in told])
    return np.moveaxis(np.asarray(told.episodes["episode_return"]), -1, 0)


if __name__ == "__main__":
    serve(build, read, curve=curve)
