"""JaxMARL's own IPPO for its particle tasks, from a checkout of its repository.

Its script reads a command line and reports to Weights & Biases; both are replaced by nothing, as are its plots.
"""

import sys
import types
from pathlib import Path
from typing import Any

from protocol import compiled_seeds, renamed, serve

NAMES = (  # purerl's = theirs
    "num_envs=NUM_ENVS rollout_length=NUM_STEPS num_epochs=UPDATE_EPOCHS num_minibatches=NUM_MINIBATCHES "
    "learning_rate=LR discount=GAMMA gae_lambda=GAE_LAMBDA clip_epsilon=CLIP_EPS entropy_coefficient=ENT_COEF "
    "value_coefficient=VF_COEF max_grad_norm=MAX_GRAD_NORM activation=ACTIVATION"
)
AGENTS = 3  # of MPE_simple_spread_v3


def patch() -> None:
    """Replace packages that training does not need."""
    for name, value in (("hydra", "main"), ("wandb", "log"), ("omegaconf", "OmegaConf")):
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], value, lambda *_, **__: lambda function: function)


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile its training with the same settings."""
    patch()
    sys.path.insert(0, str(Path(task["checkout"]) / "baselines" / "IPPO"))
    from ippo_ff_mpe import make_train  # pyright: ignore[reportMissingImports]

    settings = renamed(task["settings"], NAMES)
    settings["ANNEAL_LR"] = task["settings"]["learning_rate_schedule"] == "linear"
    settings |= {"ENV_NAME": task["environment"].partition("/")[2], "ENV_KWARGS": task["parameters"] or {}}
    settings["TOTAL_TIMESTEPS"] = task["steps"]
    seconds, train = compiled_seeds(make_train(settings), task)
    return seconds, lambda seed: train(seed) | {"task": task}


def curve(done: Any) -> list[tuple[int, float]]:
    """Return the mean return of an agent over greedy episodes with the last parameters."""
    import jax
    import jax.numpy as jnp
    import jaxmarl  # pyright: ignore[reportMissingImports]
    from ippo_ff_mpe import ActorCritic, batchify, unbatchify  # pyright: ignore[reportMissingImports]

    task = done["task"]
    num = task["episodes"]
    env = jaxmarl.make(task["environment"].partition("/")[2], **(task["parameters"] or {}))
    network = ActorCritic(env.action_space(env.agents[0]).n, activation=task["settings"]["activation"])
    params = done["runner_state"][0].params

    def step(carry: Any, key: Any) -> tuple[Any, Any]:
        observation, state = carry
        policy, _ = network.apply(params, batchify(observation, env.agents, env.num_agents * num))
        action = unbatchify(policy.mode(), env.agents, num, env.num_agents)
        observation, state, reward, *_ = jax.vmap(env.step)(jax.random.split(key, num), state, action)
        return (observation, state), sum(reward[agent].mean() for agent in env.agents) / AGENTS

    keys = jax.random.split(jax.random.PRNGKey(task["steps"]), env.max_steps + 1)
    start = jax.vmap(env.reset)(jax.random.split(keys[0], num))
    _, rewards = jax.jit(lambda start: jax.lax.scan(step, start, keys[1:]))(start)
    return [(task["steps"], float(jnp.sum(rewards)))]


def read(done: Any) -> float:
    """Return the mean return of an agent over the end of the run, of which its metrics are means already."""
    import numpy as np

    returns = np.asarray(done["metrics"]["returned_episode_returns"]) / AGENTS  # its wrapper adds up their rewards
    return float(returns[-max(len(returns) // 10, 1) :].mean())


if __name__ == "__main__":
    serve(build, read, curve=curve)
