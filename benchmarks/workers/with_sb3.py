"""stable-baselines3, on PyTorch."""

import math
from typing import Any

from protocol import renamed, serve

NAMES = (  # purerl's = theirs
    "learning_rate=learning_rate discount=gamma batch_size=batch_size max_grad_norm=max_grad_norm "
    "num_epochs=n_epochs rollout_length=n_steps gae_lambda=gae_lambda clip_epsilon=clip_range "
    "entropy_coefficient=ent_coef value_coefficient=vf_coef replay_capacity=buffer_size "
    "learning_starts=learning_starts exploration_fraction=exploration_fraction epsilon_end=exploration_final_eps "
    "epsilon_start=exploration_initial_eps tau=tau"
)
ARGUMENTS = {  # arguments of each algorithm, among these
    "ppo": "n_epochs n_steps gae_lambda clip_range ent_coef vf_coef max_grad_norm",
    "dqn": "batch_size max_grad_norm buffer_size learning_starts exploration_fraction exploration_final_eps "
    "exploration_initial_eps tau",
    "sac": "batch_size buffer_size learning_starts tau",
}


def arguments(task: dict[str, Any]) -> dict[str, Any]:
    """Return the task's settings as arguments of its constructor."""
    import torch  # pyright: ignore[reportMissingImports]

    ours, algorithm = task["settings"], task["algorithm"]
    allowed = {"learning_rate", "gamma", *ARGUMENTS[algorithm].split()}
    theirs = {name: value for name, value in renamed(ours, NAMES).items() if name in allowed}
    activations = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
    theirs["policy_kwargs"] = {
        "net_arch": list(ours["hidden_sizes"]),
        "activation_fn": activations[ours["activation"]],
    }
    if algorithm == "ppo":
        theirs["batch_size"] = ours["num_envs"] * ours["rollout_length"] // ours["num_minibatches"]
        if ours["learning_rate_schedule"] == "linear":
            rate = ours["learning_rate"]
            theirs["learning_rate"] = lambda left: rate * left
    else:
        theirs |= {"train_freq": ours["rollout_length"], "gradient_steps": ours["num_gradient_steps"]}
    if algorithm == "dqn":
        theirs["max_grad_norm"] = math.inf if ours["max_grad_norm"] is None else ours["max_grad_norm"]
        theirs["target_update_interval"] = ours["target_update_interval"] * ours["num_envs"]
    return theirs


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Return a call that makes a new model and trains it."""
    import stable_baselines3  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.env_util import make_vec_env  # pyright: ignore[reportMissingImports]

    cls = getattr(stable_baselines3, task["algorithm"].upper())

    def train(seed: int, steps: int | None = None) -> Any:
        env = make_vec_env(task["environment"], task["settings"]["num_envs"], seed=seed)
        model = cls("MlpPolicy", env, seed=seed, device="cpu", **arguments(task))
        return model.learn(steps or task["steps"])

    train(0, min(task["steps"], 2 * task["settings"]["num_envs"] * task["settings"]["rollout_length"]))
    return 0.0, train


def read(done: Any) -> float:
    """Return the mean return of the last hundred episodes."""
    episodes = [episode["r"] for episode in done.ep_info_buffer]
    return sum(episodes) / len(episodes) if episodes else float("nan")


if __name__ == "__main__":
    serve(build, read)
