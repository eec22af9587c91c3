"""The PPO of Craftax_Baselines, from a checkout of its repository: recurrent (`ppo_rnn.py`) or not (`ppo.py`).

It reports to Weights & Biases, which is replaced with a list. Policy and value each have three tanh layers without
recurrence, or two ReLU layers with it, all of the same width.
"""

import importlib
import sys
import types
from typing import Any

from protocol import compiled_seeds, name_in_suite, renamed, serve

NAMES = (  # purerl's = theirs
    "num_envs=NUM_ENVS rollout_length=NUM_STEPS num_epochs=UPDATE_EPOCHS num_minibatches=NUM_MINIBATCHES "
    "learning_rate=LR discount=GAMMA gae_lambda=GAE_LAMBDA clip_epsilon=CLIP_EPS entropy_coefficient=ENT_COEF "
    "value_coefficient=VF_COEF max_grad_norm=MAX_GRAD_NORM"
)
AS_SHIPPED = {
    "USE_OPTIMISTIC_RESETS": True,
    "OPTIMISTIC_RESET_RATIO": 16,
    "TRAIN_ICM": False,
    "USE_E3B": False,
    "DEBUG": True,
    "USE_WANDB": True,
}
REPORTS: list[float] = []  # the mean return of the episodes of each update


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile its training with the same settings."""
    import jax

    sys.modules["wandb"] = types.ModuleType("wandb")
    sys.path.insert(0, task["checkout"])
    given = task["settings"]
    module: Any = importlib.import_module("ppo" if given["rnn"] == "none" else "ppo_rnn")
    module.create_log_dict = lambda told, config: float(told["returned_episode_returns"])
    module.batch_log = lambda update, reached, config: REPORTS.append(reached)
    settings = renamed(given, NAMES) | AS_SHIPPED | {"ENV_NAME": name_in_suite(task)}
    settings |= {"TOTAL_TIMESTEPS": task["steps"], "LAYER_SIZE": given["hidden_sizes"][0]}
    settings["ANNEAL_LR"] = given["learning_rate_schedule"] == "linear"
    seconds, train = compiled_seeds(module.make_train(settings), task)

    def run(seed: int) -> dict[str, Any]:
        REPORTS.clear()
        result = train(seed)
        jax.effects_barrier()
        return {"params": result["runner_state"][0].params, "reports": list(REPORTS)} | {"task": task, "module": module}

    return seconds, run


def curve(done: Any) -> list[tuple[int, float]]:
    """Return the mean return of greedy episodes with the last parameters."""
    import jax
    import jax.numpy as jnp
    from craftax.craftax_env import make_craftax_env_from_name  # pyright: ignore[reportMissingImports]

    task, module, num = done["task"], done["module"], done["task"]["episodes"]
    env = make_craftax_env_from_name(name_in_suite(task), auto_reset=False)
    actions, width = env.action_space(env.default_params).n, task["settings"]["hidden_sizes"][0]
    recurrent = task["settings"]["rnn"] != "none"
    if recurrent:
        network = module.ActorCriticRNN(actions, config={"LAYER_SIZE": width})
        memory = module.ScannedRNN.initialize_carry(num, width)
    else:
        network, memory = module.ActorCritic(actions, width), ()

    def step(carry: Any) -> Any:
        key, memory, observation, state, playing, total = carry
        if recurrent:
            memory, policy, _ = network.apply(done["params"], memory, (observation[None], ~playing[None]))
            action = policy.mode()[0]
        else:
            action = network.apply(done["params"], observation)[0].mode()
        key, now = jax.random.split(key)
        advance = jax.vmap(env.step, in_axes=(0, 0, 0, None))
        observation, state, reward, over, _ = advance(jax.random.split(now, num), state, action, env.default_params)
        return key, memory, observation, state, playing & ~over, total + reward * playing

    key, now = jax.random.split(jax.random.PRNGKey(task["steps"]))
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(now, num), env.default_params)
    start = (key, memory, observation, state, jnp.ones(num, bool), jnp.zeros(num))
    played = jax.jit(lambda start: jax.lax.while_loop(lambda carry: carry[4].any(), step, start))(start)
    return [(task["steps"], float(played[-1].mean()))]


def read(done: Any) -> float:
    """Return the mean return of the episodes over the end of the run."""
    import numpy as np

    return float(np.nanmean(done["reports"][-max(len(done["reports"]) // 10, 1) :]))


if __name__ == "__main__":
    serve(build, read, curve=curve)
