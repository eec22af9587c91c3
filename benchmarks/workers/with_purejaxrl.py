"""PureJaxRL from a checkout, patched for the current JAX and gymnax, which are newer than it.

The patches: `jax.tree_map`, renamed `jax.tree.map`; gymnax's step, which returns termination and truncation as two
values; and packages that it imports for environments other than these.

LPO's own code needs a JAX of 2022. To evolve LPO, a candidate's drift therefore replaces the clip in PureJaxRL's PPO,
and evosax searches, as its authors propose for objectives.
"""

import sys
import types
from pathlib import Path
from typing import Any

from protocol import compiled, compiled_seeds, last_tenth, renamed, serve

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
    if task["evolves"]:
        return generation(prepare(task), Path(task["checkout"]), task)
    return compiled_seeds(training(task), task)


def training(task: dict[str, Any]) -> Any:
    """Return its training with the same settings, a function of a key."""
    settings = prepare(task)
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
    return make_train(settings)


def prepare(task: dict[str, Any]) -> dict[str, Any]:
    """Make its modules importable, and return its settings."""
    patch()
    checkout = Path(task["checkout"])
    sys.path[:0] = [str(checkout / "purejaxrl"), str(checkout)]
    settings = renamed(task["settings"], NAMES)
    settings["ANNEAL_LR"] = task["settings"]["learning_rate_schedule"] == "linear"
    return settings | {"ENV_NAME": task["environment"], "TOTAL_TIMESTEPS": task["steps"], "DEBUG": False}


def generation(settings: dict[str, Any], checkout: Path, task: dict[str, Any]) -> tuple[float, Any]:
    """Compile the first generation of an evolution of LPO that starts at PPO's clip."""
    import jax
    import jax.numpy as jnp
    import optax
    from evosax.algorithms import Open_ES  # pyright: ignore[reportMissingImports]
    from evosax.core.fitness_shaping import standardize_fitness_shaping_fn  # pyright: ignore[reportMissingImports]

    ppo: dict[str, Any] = {"__name__": "ppo"}
    source = (checkout / "purejaxrl" / "ppo.py").read_text()
    loss, drifting = "loss_actor = -jnp.minimum(loss_actor1, loss_actor2)", 'loss_actor = config["LOSS"](ratio, gae)'
    assert loss in source
    exec(source.replace(loss, drifting), ppo)

    def member(candidate: Any, key: Any) -> Any:
        def objective(ratio: Any, advantage: Any) -> Any:
            away = 1.0 - ratio
            near = jnp.stack([jnp.log(ratio), jnp.log(ratio) ** 2, away, away**2], -1)
            inputs = jnp.concatenate([near, advantage[:, None] * near], -1)
            clip = jax.nn.relu((ratio - jnp.clip(ratio, 0.8, 1.2)) * advantage)
            learned = jnp.tanh(inputs @ candidate["hidden"]) @ candidate["output"]
            return jax.nn.relu(clip + learned - 1e-4) - ratio * advantage

        metrics = ppo["make_train"](settings | {"LOSS": objective})(key)["metrics"]
        over = metrics["returned_episode"]
        return jnp.sum(metrics["returned_episode_returns"] * over) / jnp.sum(over)

    hidden = jax.nn.initializers.lecun_normal()(jax.random.PRNGKey(0), (8, 128))
    start = {"hidden": hidden, "output": jnp.zeros(128)}
    search = Open_ES(
        population_size=task["seeds"],
        solution=start,
        optimizer=optax.adam(0.01),
        std_schedule=optax.constant_schedule(0.04),
        fitness_shaping_fn=standardize_fitness_shaping_fn,
    )
    settled = search.default_params

    def advance(key: Any) -> Any:
        key_init, key_ask, key_lives, key_tell = jax.random.split(key, 4)
        candidates, state = search.ask(key_ask, search.init(key_init, start, settled), settled)
        fitness = jax.vmap(member, in_axes=(0, None))(candidates, key_lives)
        state, _ = search.tell(key_tell, candidates, -fitness, state, settled)
        return {"fitness": fitness, "state": state}

    seconds, program = compiled(advance, jax.random.PRNGKey(0))
    return seconds, lambda seed: program(jax.random.PRNGKey(seed))


def read(done: Any) -> float:
    """Return the mean return over the end of the run, or over the whole run for an evolution's candidates."""
    import numpy as np

    if "fitness" in done:  # an evolution's candidates
        return float(np.mean(done["fitness"]))
    metrics = done["metrics"]
    if "returns" in metrics:  # DQN's, of each environment's last episode
        returns = np.moveaxis(np.asarray(metrics["returns"]), -1, 0)
        return last_tenth(returns, np.ones(returns.shape, bool))
    return last_tenth(metrics["returned_episode_returns"], np.asarray(metrics["returned_episode"]))


if __name__ == "__main__":
    serve(build, read)
