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
    return compiled_seeds(train, task)


def read(done: Any) -> float:
    """Return the mean return over the end of the run, of each environment's last episode."""
    import numpy as np

    returns = np.moveaxis(np.asarray(done["metrics"]["returned_episode_returns"]), -1, 0)
    return last_tenth(returns, np.ones(returns.shape, bool))


if __name__ == "__main__":
    serve(build, read)
