"""purejaxql's PQN from a checkout, without the packages of its command line, which training does not need."""

import sys
import types
from typing import Any
from unittest.mock import MagicMock

from protocol import compiled_seeds, last_tenth, renamed, serve

NAMES = (  # purerl's = theirs
    "num_envs=NUM_ENVS rollout_length=NUM_STEPS num_epochs=NUM_EPOCHS num_minibatches=NUM_MINIBATCHES "
    "learning_rate=LR discount=GAMMA q_lambda=LAMBDA "
    "max_grad_norm=MAX_GRAD_NORM epsilon_start=EPS_START epsilon_end=EPS_FINISH exploration_fraction=EPS_DECAY"
)


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile its training with the same settings."""
    for name in ("hydra", "omegaconf", "wandb", "safetensors"):
        sys.modules[name] = MagicMock()
    sys.modules["safetensors.flax"] = types.ModuleType("safetensors.flax")
    sys.modules["safetensors.flax"].__dict__.update(load_file=None, save_file=None)
    sys.path.insert(0, task["checkout"])
    from purejaxql.pqn_gymnax import make_train  # pyright: ignore[reportMissingImports]

    settings = renamed(task["settings"], NAMES)
    sizes = task["settings"]["hidden_sizes"]
    train = make_train(
        settings
        | {
            "ENV_NAME": task["environment"],
            "TOTAL_TIMESTEPS": task["steps"],
            "TOTAL_TIMESTEPS_DECAY": task["steps"],
            "HIDDEN_SIZE": sizes[0],
            "NUM_LAYERS": len(sizes),
            "NORM_TYPE": "layer_norm" if task["settings"]["layer_norm"] else "none",
            "LR_LINEAR_DECAY": task["settings"]["learning_rate_schedule"] == "linear",
            "WANDB_MODE": "disabled",
        }
    )
    seconds, compiled = compiled_seeds(train, task)
    return seconds, lambda seed: compiled(seed) | {"task": task}


def curve(done: Any) -> list[tuple[int, float]]:
    """Return the mean return of greedy episodes with the last parameters, each an environment's first."""
    import gymnax
    import jax
    import jax.numpy as jnp
    from gymnax.wrappers.purerl import FlattenObservationWrapper
    from purejaxql.pqn_gymnax import QNetwork  # pyright: ignore[reportMissingImports]

    task = done["task"]
    if task["seeds"] > 1:
        return []
    env, params = gymnax.make(task["environment"])
    env = FlattenObservationWrapper(env)
    settings, trained = task["settings"], done["runner_state"][0]
    network = QNetwork(
        action_dim=env.action_space(params).n,
        hidden_size=settings["hidden_sizes"][0],
        num_layers=len(settings["hidden_sizes"]),
        norm_type="layer_norm" if settings["layer_norm"] else "none",
        norm_input=False,
    )
    variables = {"params": trained.params, "batch_stats": trained.batch_stats}
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))

    def play(carry: Any, key: Any) -> tuple[Any, None]:
        observation, state, going, total = carry
        action = jnp.argmax(network.apply(variables, observation, train=False), axis=-1)
        observation, state, reward, ended, _ = step(jax.random.split(key, task["episodes"]), state, action, params)
        return (observation, state, going & ~ended, total + jnp.where(going, reward, 0.0)), None

    keys = jax.random.split(jax.random.PRNGKey(task["steps"]), params.max_steps_in_episode + 2)
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(keys[0], task["episodes"]), params)
    start = (observation, state, jnp.ones(task["episodes"], bool), jnp.zeros(task["episodes"]))
    (*_, total), _ = jax.jit(lambda start: jax.lax.scan(play, start, keys[1:]))(start)
    return [(task["steps"], float(total.mean()))]


def read(done: Any) -> float:
    """Return the mean return over the end of the run, of each environment's last episode."""
    import numpy as np

    returns = np.moveaxis(np.asarray(done["metrics"]["returned_episode_returns"]), -1, 0)
    return last_tenth(returns, np.ones(returns.shape, bool))


if __name__ == "__main__":
    serve(build, read, curve=curve)
