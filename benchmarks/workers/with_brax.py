"""brax's own PPO, on brax's environments, patched for a JAX without `jax.device_put_replicated`.

Each call compiles anew, so a training is timed by brax's own clock: the speed of its last part, which is compiled.
"""

from typing import Any, NamedTuple

from protocol import renamed, serve

NAMES = (  # purerl's = theirs
    "num_envs=num_envs rollout_length=unroll_length num_epochs=num_updates_per_batch num_minibatches=num_minibatches "
    "learning_rate=learning_rate discount=discounting gae_lambda=gae_lambda clip_epsilon=clipping_epsilon "
    "entropy_coefficient=entropy_cost value_coefficient=vf_loss_coefficient max_grad_norm=max_grad_norm "
    "normalize_observation=normalize_observations normalize_advantage=normalize_advantage"
)
REWARD_SCALING = {  # of its notebook, where purerl divides rewards by their spread
    "ant": 10.0,
    "halfcheetah": 1.0,
    "hopper": 30.0,
    "inverted_double_pendulum": 10.0,
    "reacher": 5.0,
    "walker2d": 5.0,
}


class Training(NamedTuple):
    """The course of one training."""

    rates: list[float]  # environment steps per second between evaluations, the first with compilation
    curve: list[tuple[int, float]]  # (environment steps, mean return) of each evaluation


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
    import time

    patch()
    from brax import envs
    from brax.training.agents.ppo import networks
    from brax.training.agents.ppo import train as ppo
    from flax import linen

    given = task["settings"]
    settings = renamed(given, NAMES)
    settings["batch_size"] = given["num_envs"] // given["num_minibatches"]
    sizes, activation = tuple(given["hidden_sizes"]), getattr(linen, given["activation"])
    factory = functools.partial(
        networks.make_ppo_networks,
        policy_hidden_layer_sizes=sizes,
        value_hidden_layer_sizes=sizes,
        activation=activation,
    )
    name, parts = task["environment"].partition("/")[2], task["evaluations"]
    env = envs.get_environment(name, **(task["parameters"] or {}))
    settings["reward_scaling"] = REWARD_SCALING[name] if given["normalize_reward"] else 1.0

    def train(seed: int, steps: int = task["steps"], evaluate: bool = True) -> Training:
        told, curve = [], []

        def note(steps: int, metrics: Any) -> None:
            told.append(metrics)
            if evaluate:
                curve.append((int(steps), float(metrics["eval/episode_reward"])))

        ppo.train(
            environment=env,
            num_timesteps=steps,
            episode_length=1000,
            num_evals=parts + 1,
            num_eval_envs=task["episodes"],
            deterministic_eval=True,
            run_evals=evaluate,
            network_factory=factory,
            seed=seed,
            progress_fn=note,
            **settings,
        )
        rates = [float(metrics["training/sps"]) for metrics in told if "training/sps" in metrics]
        return Training(rates=rates, curve=curve)

    steps = given["num_envs"] * given["rollout_length"]
    began = time.perf_counter()
    short = train(0, parts * steps, evaluate=False)
    seconds = time.perf_counter() - began - parts * steps / short.rates[-1]
    return seconds, lambda seed: (train(seed), task["steps"])


def read(done: tuple[Training, int]) -> float:
    """Return the mean return at the end."""
    return done[0].curve[-1][1]


def time_of(done: tuple[Training, int]) -> float:
    """Return the seconds of the whole training at the speed of its compiled parts."""
    training, steps = done
    rates = training.rates[1:]
    return steps * sum(1 / rate for rate in rates) / len(rates)


if __name__ == "__main__":
    serve(build, read, time_of, lambda done: done[0].curve)
