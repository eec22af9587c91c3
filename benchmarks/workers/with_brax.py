"""brax's own PPO and SAC, on brax's environments, patched for a JAX without `jax.device_put_replicated`.

Each call compiles again, so brax's own clock times a training run: the speed of its last part, which is compiled.
"""

from typing import Any, NamedTuple

from protocol import name_in_suite, renamed, serve

SHARED = (  # purerl's = theirs
    "num_envs=num_envs learning_rate=learning_rate discount=discounting normalize_observation=normalize_observations "
)
NAMES = {
    "ppo": SHARED + "rollout_length=unroll_length num_epochs=num_updates_per_batch num_minibatches=num_minibatches "
    "gae_lambda=gae_lambda clip_epsilon=clipping_epsilon entropy_coefficient=entropy_cost "
    "value_coefficient=vf_loss_coefficient max_grad_norm=max_grad_norm normalize_advantage=normalize_advantage",
    "sac": SHARED + "batch_size=batch_size num_gradient_steps=grad_updates_per_step tau=tau "
    "replay_capacity=max_replay_size learning_starts=min_replay_size reward_scale=reward_scaling",
}
LAYERS = {  # the arguments of its networks that the hidden sizes become
    "ppo": ("policy_hidden_layer_sizes", "value_hidden_layer_sizes"),
    "sac": ("hidden_layer_sizes",),
}
REWARD_SCALING = {  # scales of its notebook; purerl divides rewards by their standard deviation instead
    "ant": 10.0,
    "halfcheetah": 1.0,
    "hopper": 30.0,
    "inverted_double_pendulum": 10.0,
    "reacher": 5.0,
    "walker2d": 5.0,
}


class Training(NamedTuple):
    """The course of one training run."""

    rates: list[float]  # environment steps per second between evaluations, the first with compilation
    curve: list[tuple[int, float]]  # (environment steps, mean return) of each evaluation


class Unevaluated:
    """Takes the place of its evaluator where only speed is asked for."""

    def __init__(self, *_: Any, **__: Any):
        """Compile nothing."""

    def run_evaluation(self, params: Any, training_metrics: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return what training reports."""
        return training_metrics


def patch() -> None:
    """Restore the function of JAX that it calls; MuJoCo's warnings would become a file."""
    import jax
    import jax.numpy as jnp
    import mujoco

    getattr(mujoco, "set_mju_user_warning")(lambda message: None)  # noqa: B009  (its stubs do not know it)
    jax.device_put_replicated = lambda tree, devices: jax.tree.map(lambda x: jnp.stack([x] * len(devices)), tree)


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Train shortly, for the seconds to compile all but evaluations."""
    import functools
    import importlib
    import time

    patch()
    from brax import envs
    from brax.training import acting
    from flax import linen

    given, algorithm = task["settings"], task["algorithm"]
    settings = renamed(given, NAMES[algorithm])
    learner = importlib.import_module(f"brax.training.agents.{algorithm}.train")
    networks = importlib.import_module(f"brax.training.agents.{algorithm}.networks")
    sizes, activation = tuple(given["hidden_sizes"]), getattr(linen, given["activation"])
    layers = dict.fromkeys(LAYERS[algorithm], sizes)
    make = getattr(networks, f"make_{algorithm}_networks")
    name, parts = name_in_suite(task), task["evaluations"]
    env = envs.get_environment(name, **(task["parameters"] or {}))
    skipped, steps = 0, given["num_envs"] * given["rollout_length"]
    if algorithm == "ppo":
        settings["batch_size"] = given["num_envs"] // given["num_minibatches"]
        settings["reward_scaling"] = REWARD_SCALING[name] if given["normalize_reward"] else 1.0
    else:
        skipped = given["learning_starts"]
    evaluator = acting.Evaluator

    def train(seed: int, steps: int = task["steps"], evaluate: bool = True) -> Training:
        told, curve = [], []

        def note(steps: int, metrics: Any) -> None:
            told.append(metrics)
            if evaluate:
                curve.append((int(steps), float(metrics["eval/episode_reward"])))

        acting.Evaluator = evaluator if evaluate else Unevaluated
        learner.train(
            environment=env,
            num_timesteps=steps,
            episode_length=1000,
            num_evals=parts + 1,
            num_eval_envs=task["episodes"],
            deterministic_eval=True,
            network_factory=functools.partial(make, activation=activation, **layers),
            seed=seed,
            progress_fn=note,
            **settings,
        )
        rates = [float(metrics["training/sps"]) for metrics in told if "training/sps" in metrics]
        return Training(rates=rates, curve=curve)

    began = time.perf_counter()
    short = train(0, skipped + parts * steps, evaluate=False)
    seconds = time.perf_counter() - began - parts * steps / short.rates[-1]
    return seconds, lambda seed: (train(seed), task["steps"] - skipped)


def read(done: tuple[Training, int]) -> float:
    """Return the mean return at the end."""
    return done[0].curve[-1][1]


def time_of(done: tuple[Training, int]) -> float:
    """Return the seconds of all steps that are learned from at the speed of its compiled parts."""
    training, steps = done
    rates = training.rates[1:]
    return steps * sum(1 / rate for rate in rates) / len(rates)


if __name__ == "__main__":
    serve(build, read, time_of, lambda done: done[0].curve)
