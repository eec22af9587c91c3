"""pgx's own examples, PPO and AlphaZero, from a checkout of its repository.

They read a command line, report to Weights & Biases and play against a baseline that they download; stubs replace all
three. Multilayer perceptrons of the task's sizes replace their networks. PPO's updates are one program, without the
evaluation after each. AlphaZero's loop runs on the host like theirs, without `device_put_replicated`, which JAX lacks.
"""

import sys
import types
from pathlib import Path
from typing import Any

from protocol import compiled, name_in_suite, renamed, serve

PPO = (  # purerl's = theirs
    "num_envs=num_envs rollout_length=num_steps num_epochs=update_epochs learning_rate=lr discount=gamma "
    "gae_lambda=gae_lambda clip_epsilon=clip_eps entropy_coefficient=ent_coef value_coefficient=vf_coef "
    "max_grad_norm=max_grad_norm"
)
ALPHAZERO = (
    "num_envs=selfplay_batch_size rollout_length=max_num_steps num_simulations=num_simulations "
    "learning_rate=learning_rate"
)


def load(task: dict[str, Any], folder: str, given: dict[str, Any]) -> Any:
    """Return the module of an example, made with these settings."""
    import pgx

    settings = types.SimpleNamespace(from_cli=lambda: given, to_object=lambda settings: settings)
    sys.modules["wandb"] = types.ModuleType("wandb")
    sys.modules["omegaconf"] = types.ModuleType("omegaconf")
    sys.modules["omegaconf"].OmegaConf = settings  # type: ignore[attr-defined]
    pgx.make_baseline_model = lambda *_: None
    sys.path.insert(0, str(Path(task["checkout"]) / "examples" / folder))
    import train  # pyright: ignore[reportMissingImports]

    return train


def perceptron(sizes: tuple[int, ...], activation: str, num_actions: int, shared: bool) -> Any:
    """Return (observation [B, ...]) -> (logits, value): one body with two heads, or two bodies."""
    import haiku as hk  # pyright: ignore[reportMissingImports]
    import jax
    import jax.numpy as jnp

    def body(x: Any) -> Any:
        for size in sizes:
            x = getattr(jax.nn, activation)(hk.Linear(size)(x))
        return x

    def network(x: Any) -> tuple[Any, Any]:
        x = x.reshape(len(x), -1).astype(jnp.float32)
        of_policy = body(x)
        of_value = of_policy if shared else body(x)
        return hk.Linear(num_actions)(of_policy), hk.Linear(1)(of_value)[:, 0]

    return network


def build_ppo(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile its PPO, all updates in one program."""
    import jax

    settings = task["settings"]
    given = renamed(settings, PPO) | {"env_name": name_in_suite(task)}
    per_update = settings["num_envs"] * settings["rollout_length"]
    given |= {"total_timesteps": task["steps"], "minibatch_size": per_update // settings["num_minibatches"]}
    example = load(task, "minatar-ppo", given)
    sizes, activation = tuple(settings["hidden_sizes"]), settings["activation"]
    example.ActorCritic = lambda num_actions, **_: perceptron(sizes, activation, num_actions, shared=False)
    update = example.make_update_fn()

    def train(key: Any) -> tuple[Any, Any]:
        key_net, key_env, key_run, key_end = jax.random.split(key, 4)
        state = jax.vmap(example.env.init)(jax.random.split(key_env, settings["num_envs"]))
        params = example.forward.init(key_net, state.observation[:1])
        runner = (params, example.optimizer.init(params), state, state.observation, key_run)
        runner, _ = jax.lax.scan(lambda runner, _: update(runner), runner, None, example.num_updates)
        return runner[0], key_end

    seconds, program = compiled(train, jax.random.PRNGKey(0))
    return seconds, lambda seed: (example, *program(jax.random.PRNGKey(seed)))


def build_alphazero(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile its AlphaZero: self-play, targets and gradient steps, as its loop calls them."""
    import time

    import haiku as hk  # pyright: ignore[reportMissingImports]
    import jax
    import jax.numpy as jnp
    import numpy as np

    settings = task["settings"]
    per_update = settings["num_envs"] * settings["rollout_length"]
    given = renamed(settings, ALPHAZERO) | {"env_id": name_in_suite(task)}
    size = per_update // settings["num_minibatches"]
    example = load(task, "alphazero", given | {"training_batch_size": size})
    sizes, activation = tuple(settings["hidden_sizes"]), settings["activation"]

    def forward(x: Any, is_eval: bool = False) -> tuple[Any, Any]:
        del is_eval
        return perceptron(sizes, activation, example.env.num_actions, shared=True)(x)

    example.forward = hk.without_apply_rng(hk.transform_with_state(forward))

    def start(key: Any) -> tuple[Any, Any]:
        state = jax.vmap(example.env.init)(jax.random.split(key, 2))
        model = example.forward.init(key, state.observation)
        return jax.tree.map(lambda x: jnp.asarray(x)[None], (model, example.optimizer.init(model[0])))

    def update(model: Any, opt_state: Any, key: Any) -> tuple[Any, Any]:
        key_play, key_order = jax.random.split(key)
        samples = jax.device_get(example.compute_loss_input(example.selfplay(model, key_play[None])))
        samples = jax.tree.map(lambda x: x.reshape((-1, *x.shape[3:])), samples)
        order = np.asarray(jax.random.permutation(key_order, len(samples.obs)))
        for part in order.reshape(-1, size):
            minibatch = jax.tree.map(lambda x, part=part: x[part][None], samples)
            model, opt_state, _, _ = example.train(model, opt_state, minibatch)
        return model, opt_state

    def train(seed: int, updates: int = task["steps"] // per_update) -> Any:
        key = jax.random.PRNGKey(seed)
        state = start(key)
        for one in jax.random.split(key, updates):
            state = update(*state, one)
        return jax.block_until_ready(state)

    began = time.perf_counter()
    train(0, 1)
    first, began = time.perf_counter() - began, time.perf_counter()
    train(0, 1)
    return first - (time.perf_counter() - began), train


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile the training of an algorithm with the same settings."""
    return {"ppo": build_ppo, "alphazero": build_alphazero}[task["algorithm"]](task)


def read(done: Any) -> float:
    """Return the result of PPO's own evaluation; NaN for self-play, which has no return."""
    if len(done) == 2:
        return float("nan")
    example, params, key = done
    return float(example.evaluate(params, key))


if __name__ == "__main__":
    serve(build, read)
