"""JaxMARL's own baselines, from a checkout of its repository: IPPO, MAPPO and QMIX.

Its scripts read a command line and report to Weights & Biases. The reports are kept here; the rest, plots included, is
replaced with stubs.
"""

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from protocol import compiled_seeds, name_in_suite, renamed, serve

SHARED = (  # purerl's = theirs
    "num_envs=NUM_ENVS rollout_length=NUM_STEPS learning_rate=LR discount=GAMMA max_grad_norm=MAX_GRAD_NORM "
)
POLICY_GRADIENT = SHARED + (
    "num_epochs=UPDATE_EPOCHS num_minibatches=NUM_MINIBATCHES gae_lambda=GAE_LAMBDA clip_epsilon=CLIP_EPS "
    "entropy_coefficient=ENT_COEF value_coefficient=VF_COEF activation=ACTIVATION rnn_size=GRU_HIDDEN_DIM"
)
Q_LEARNING = SHARED + (
    "batch_size=BUFFER_BATCH_SIZE learning_starts=LEARNING_STARTS num_gradient_steps=NUM_EPOCHS tau=TAU "
    "target_update_interval=TARGET_UPDATE_INTERVAL epsilon_start=EPS_START epsilon_end=EPS_FINISH "
    "exploration_fraction=EPS_DECAY rnn_size=HIDDEN_SIZE mixing_size=MIXER_EMBEDDING_DIM"
)
QMIX = {"MIXER_HYPERNET_HIDDEN_DIM": 128, "MIXER_INIT_SCALE": 0.001}  # as it ships them
REPORTED = ("test_returned_episode_returns", "returns", "returned_episode_returns")  # the first that it reports
REPORTS: list[float] = []  # the mean return of each update, in the order of the reports


class Baseline(NamedTuple):
    """A script of its repository, and how the network that it trains acts."""

    script: str
    scale: int  # its reports are so many times the mean reward of an agent
    network: str = ""  # its class in the script; "": the script plays by itself as it trains
    params: Callable[[Any], Any] = lambda state: state[0][0].params  # parameters from the final state of its loop
    memory: bool = True
    masked: bool = False  # whether some actions are illegal


BASELINES = {  # by algorithm and family of environments
    ("ppo", "MPE"): Baseline(
        "IPPO/ippo_ff_mpe", 3, network="ActorCritic", params=lambda state: state[0].params, memory=False
    ),
    ("ppo", "overcooked"): Baseline(
        "IPPO/ippo_ff_overcooked", 1, network="ActorCritic", params=lambda state: state[0].params, memory=False
    ),
    ("ppo", "HeuristicEnemySMAX"): Baseline("IPPO/ippo_rnn_smax", 1, network="ActorCriticRNN", masked=True),
    ("mappo", "MPE"): Baseline(
        "MAPPO/mappo_rnn_mpe", 3, network="ActorRNN", params=lambda state: state[0][0][0].params
    ),
    ("qmix", "MPE"): Baseline("QLearning/qmix_rnn", 3),
}


def patch() -> None:
    """Replace packages that training does not need."""

    def report(told: Any, **_: Any) -> None:
        import numpy as np

        reached = [told[name] for name in REPORTED if name in told]
        REPORTS.extend(float(np.mean(value)) for value in reached[:1])

    ignored = lambda *_, **__: lambda function: function
    for name, value, stands_for in (
        ("hydra", "main", ignored),
        ("wandb", "log", report),
        ("omegaconf", "OmegaConf", ignored),
    ):
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], value, stands_for)


def baseline(task: dict[str, Any]) -> Baseline:
    """Return the script that trains a task."""
    family = name_in_suite(task).partition("_")[0]
    return BASELINES[task["algorithm"], family]


def arguments_of(task: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of its environment; the shaped rewards of Overcooked are added by its script."""
    import jaxmarl  # pyright: ignore[reportMissingImports]

    arguments = dict(task["parameters"] or {})
    for ours in ("global_state", "shaped_reward"):
        arguments.pop(ours, None)
    if "scenario" in arguments:
        arguments["scenario"] = jaxmarl.environments.smax.map_name_to_scenario(arguments["scenario"])
    if "layout" in arguments:
        arguments["layout"] = jaxmarl.environments.overcooked.overcooked_layouts[arguments["layout"]]
    return arguments


def settings_of(task: dict[str, Any]) -> dict[str, Any]:
    """Return the task's settings by its names."""
    given = task["settings"]
    settings = renamed(given, Q_LEARNING if task["algorithm"] == "qmix" else POLICY_GRADIENT)
    settings["ANNEAL_LR"] = settings["LR_LINEAR_DECAY"] = given["learning_rate_schedule"] == "linear"
    settings["TOTAL_TIMESTEPS"], settings["FC_DIM_SIZE"] = task["steps"], given["hidden_sizes"][0]
    arguments = arguments_of(task)
    settings["MAP_NAME"] = (task["parameters"] or {}).get("scenario", "")  # its script of SMAX looks it up itself
    arguments.pop("scenario", None)
    settings |= {"ENV_NAME": name_in_suite(task), "ENV_KWARGS": arguments}
    settings["REW_SHAPING_HORIZON"] = 1e12  # shaped rewards of Overcooked stay whole, as ours do
    settings |= {"SCALE_CLIP_EPS": False, "SEED": 0, "WANDB_MODE": "online"}
    if task["algorithm"] == "qmix":
        settings |= QMIX | {"BUFFER_SIZE": given["replay_capacity"] // given["rollout_length"]}
        settings |= {"TEST_INTERVAL": 1.0, "TEST_NUM_ENVS": task["episodes"], "TEST_NUM_STEPS": 26}
    return settings


def build(task: dict[str, Any]) -> tuple[float, Any]:
    """Compile its training with the same settings."""
    import jax

    patch()
    chosen, settings = baseline(task), settings_of(task)
    folder, _, name = chosen.script.rpartition("/")
    sys.path.insert(0, str(Path(task["checkout"]) / "baselines" / folder))
    module = importlib.import_module(name)
    made = [module.env_from_config(dict(settings))[0]] if hasattr(module, "env_from_config") else []
    seconds, train = compiled_seeds(module.make_train(settings, *made), task)

    def run(seed: int) -> dict[str, Any]:
        REPORTS.clear()
        result = train(seed)
        jax.effects_barrier()
        return result | {"task": task, "module": module, "settings": settings, "reports": list(REPORTS)}

    return seconds, run


def curve(done: Any) -> list[tuple[int, float]]:
    """Return the mean return of an agent over greedy episodes with the last parameters."""
    import jax
    import jax.numpy as jnp
    import jaxmarl  # pyright: ignore[reportMissingImports]

    task, settings = done["task"], done["settings"]
    chosen, num = baseline(task), task["episodes"]
    if not chosen.network:
        return [(task["steps"], float(done["runner_state"][2]["returned_episode_returns"]) / chosen.scale)]
    env = jaxmarl.make(settings["ENV_NAME"], **arguments_of(task))
    module, size = done["module"], env.action_space(env.agents[0]).n
    about = {"config": settings} if chosen.memory else {"activation": settings["ACTIVATION"]}
    network, params = getattr(module, chosen.network)(size, **about), chosen.params(done["runner_state"])
    together = lambda by_agent: jnp.concatenate([by_agent[agent] for agent in env.agents])

    def act(memory: Any, state: Any, seen: Any, dones: Any) -> tuple[Any, Any]:
        if not chosen.memory:
            return memory, network.apply(params, seen.reshape(len(seen), -1))[0].mode()
        legal = (together(jax.vmap(env.get_avail_actions)(state)),) if chosen.masked else ()
        memory, policy, *_ = network.apply(params, memory, (seen[None], dones[None], *legal))
        return memory, policy.mode()[0]

    def step(carry: Any, key: Any) -> tuple[Any, Any]:
        memory, observation, state, dones, playing = carry
        memory, action = act(memory, state, together(observation), dones)
        actions = dict(zip(env.agents, action.reshape(env.num_agents, num), strict=True))
        observation, state, reward, over, _ = jax.vmap(env.step)(jax.random.split(key, num), state, actions)
        paid = sum(reward[agent] for agent in env.agents) / env.num_agents * playing
        return (memory, observation, state, together(over), playing & ~over["__all__"]), paid

    keys = jax.random.split(jax.random.PRNGKey(task["steps"]), env.max_steps + 2)
    observation, state = jax.vmap(env.reset)(jax.random.split(keys[0], num))
    nobody = jnp.zeros(num * env.num_agents, bool)
    wide = (num * env.num_agents, settings.get("GRU_HIDDEN_DIM"))
    memory = module.ScannedRNN.initialize_carry(*wide) if chosen.memory else ()
    start = (memory, observation, state, nobody, jnp.ones(num, bool))
    _, rewards = jax.jit(lambda start: jax.lax.scan(step, start, keys[1:]))(start)
    return [(task["steps"], float(jnp.sum(rewards) / num))]


def read(done: Any) -> float:
    """Return the mean return of an agent over the end of the run."""
    import numpy as np

    reports = np.asarray(done["reports"])
    return float(np.nanmean(reports[-max(len(reports) // 10, 1) :])) / baseline(done["task"]).scale


if __name__ == "__main__":
    serve(build, read, curve=curve)
