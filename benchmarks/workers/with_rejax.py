"""rejax, without the evaluations of its training."""

from typing import Any

from protocol import compiled_seeds, renamed, serve

NAMES = (  # purerl's = theirs
    "num_envs=num_envs rollout_length=num_steps num_epochs=num_epochs num_minibatches=num_minibatches "
    "learning_rate=learning_rate discount=gamma gae_lambda=gae_lambda clip_epsilon=clip_eps "
    "entropy_coefficient=ent_coef value_coefficient=vf_coef max_grad_norm=max_grad_norm"
)


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile its training with the same settings."""
    import jax
    import rejax  # pyright: ignore[reportMissingImports]
    from rejax.evaluate import evaluate  # pyright: ignore[reportMissingImports]

    settings = renamed(task["settings"], NAMES)
    agent = {
        "activation": task["settings"]["activation"],
        "hidden_layer_sizes": tuple(task["settings"]["hidden_sizes"]),
    }
    algorithm = rejax.get_algo(task["algorithm"]).create(
        env=task["environment"],
        agent_kwargs=agent,
        total_timesteps=task["steps"],
        eval_freq=task["steps"],
        skip_initial_evaluation=True,
        **settings,
    )
    silent = algorithm.replace(eval_callback=lambda algorithm, state, key: ())
    seconds, program = compiled_seeds(silent.train, task)
    limit = algorithm.env_params.max_steps_in_episode

    def returns(state: Any) -> Any:
        return evaluate(
            algorithm.make_act(state), jax.random.PRNGKey(1), algorithm.env, algorithm.env_params, 128, limit
        )[1].mean()

    def train(seed: int) -> tuple[Any, Any]:
        return program(seed), jax.jit(jax.vmap(returns) if task["seeds"] > 1 else returns)

    return seconds, train


def read(done: Any) -> float:
    """Return the mean return of 128 episodes with the trained policy."""
    (state, _), returns = done
    return float(returns(state).mean())


if __name__ == "__main__":
    serve(build, read)
