"""PureJaxRL from a checkout, patched for the current JAX and gymnax, which are newer than it.

The patches: `jax.tree_map`, which is `jax.tree.map` now; gymnax's step, which returns termination and truncation as two
values; and packages that it imports for environments other than these.
"""

import sys
import types
from pathlib import Path
from typing import Any

from protocol import compiled_seeds, last_tenth, renamed, serve

NAMES = (  # purerl's = theirs
    "num_envs=NUM_ENVS rollout_length=NUM_STEPS num_epochs=UPDATE_EPOCHS num_minibatches=NUM_MINIBATCHES "
    "learning_rate=LR discount=GAMMA gae_lambda=GAE_LAMBDA clip_epsilon=CLIP_EPS entropy_coefficient=ENT_COEF "
    "value_coefficient=VF_COEF max_grad_norm=MAX_GRAD_NORM activation=ACTIVATION "
    "replay_capacity=BUFFER_SIZE batch_size=BUFFER_BATCH_SIZE learning_starts=LEARNING_STARTS "
    "epsilon_start=EPSILON_START epsilon_end=EPSILON_FINISH tau=TAU"
)


def patch() -> None:
    """Restore the functions of JAX and gymnax that it calls, and replace packages that are not needed."""
    import jax
    from gymnax.environments import environment

    step = environment.Environment.step

    def five_values(self: Any, *args: Any, **more: Any) -> tuple:
        observation, state, reward, *done, _ = step(self, *args, **more)
        return observation, state, reward, sum(done[1:], done[0]), {}

    for name in ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix", "wandb"):
        sys.modules[name] = types.ModuleType(name)
    training = sys.modules["brax.envs.wrappers.training"]
    for module, name, value in (
        (jax, "tree_map", jax.tree.map),
        (environment.Environment, "step", five_values),
        (sys.modules["brax"], "envs", sys.modules["brax.envs"]),
        (training, "EpisodeWrapper", object),
        (training, "AutoResetWrapper", object),
    ):
        setattr(module, name, value)


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile its training with the same settings."""
    patch()
    checkout = Path(task["checkout"])
    sys.path[:0] = [str(checkout / "purejaxrl"), str(checkout)]
    settings = renamed(task["settings"], NAMES)
    settings["ANNEAL_LR"] = task["settings"]["learning_rate_schedule"] == "linear"
    settings |= {"ENV_NAME": task["environment"], "TOTAL_TIMESTEPS": task["steps"], "DEBUG": False}
    if task["algorithm"] == "dqn":
        import wrappers  # pyright: ignore[reportMissingImports]

        sys.modules["gymnax.wrappers.purerl"] = wrappers  # its own of five values: gymnax's have six now
        from dqn import make_train  # pyright: ignore[reportMissingImports]

        settings |= {
            "EPSILON_ANNEAL_TIME": task["settings"]["exploration_fraction"] * task["steps"],
            "TRAINING_INTERVAL": task["settings"]["num_envs"],
            "TARGET_UPDATE_INTERVAL": task["settings"]["target_update_interval"] * task["settings"]["num_envs"],
        }
    else:
        from ppo import make_train  # pyright: ignore[reportMissingImports]
    train = make_train(settings)
    return compiled_seeds(train, task)


def read(done: Any) -> float:
    """Return the mean return over the end of the run."""
    import numpy as np

    metrics = done["metrics"]
    if "returns" in metrics:  # DQN's, of each environment's last episode
        returns = np.moveaxis(np.asarray(metrics["returns"]), -1, 0)
        return last_tenth(returns, np.ones(returns.shape, bool))
    return last_tenth(metrics["returned_episode_returns"], np.asarray(metrics["returned_episode"]))


if __name__ == "__main__":
    serve(build, read)
