"""Compile time of adapters: `vectorize`'s reset and step compared with the suite's own, vmapped over as many.

The vectorized step contains the suite's step and reset once each; the vectorized reset contains the suite's reset. So
the two programs together contain one reset more than the suite's two. A trainer compiles the start with
`backend.start_options`.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import purerl
from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import progress, run_process, spread
from purerl import registry

NUM_ENVS = 64
TASKS = (  # id and parameters
    ("craftax/Craftax-Classic-Symbolic-v1", {}),
    ("craftax/Craftax-Symbolic-v1", {}),
    ("brax/ant", {}),
    ("brax/ant", {"backend": "spring"}),
    ("brax/humanoid", {}),
    ("playground/CartpoleBalance", {}),
    ("jumanji/Game2048-v1", {}),
    ("navix/Navix-DoorKey-5x5-v0", {}),
    ("pgx/connect_four", {}),
    ("jaxmarl/HeuristicEnemySMAX", {}),
)
PROGRAM = (
    "import json, sys; from benchmarks.adapters import seconds; print(json.dumps(seconds(*json.loads(sys.argv[1]))))"
)
COLUMNS = tables.columns(
    "environment: text; their reset: seconds; their step: seconds; our reset: seconds; as a start: seconds; "
    "our step: seconds; reset and step: ratio; start and step: ratio"
)


class Bare(NamedTuple):
    """A suite's own functions of one environment."""

    reset: Callable[[Any], Any]  # key -> (state, ...)
    step: Callable[[Any, Any, Any], Any]  # (key, state, action) -> anything
    sample: Callable[[Any], Any]  # key -> action


def measure(request: Request) -> list[Table]:
    """Return the processor seconds of tracing and compiling, of those suites that are installed."""
    rows: list[list[Any]] = []
    rounds = min(request.runs, 3) if request.size == 1 else 1
    tasks = [task for task in TASKS if registry.installed(task[0].partition("/")[0])]
    for env_id, options in tasks[: max(1, round(len(tasks) * request.size))]:
        took = run_process(PROGRAM, [env_id, options, rounds])
        both = [a + b for a, b in zip(took["bare reset"], took["bare step"], strict=True)]
        against = lambda *ours, took=took, both=both: spread(
            [sum(parts) / whole for *parts, whole in zip(*(took[name] for name in ours), both, strict=True)]
        )
        name = " ".join([env_id, *(f"{name}={value}" for name, value in options.items())])
        measured = [spread(took[of]) for of in ("bare reset", "bare step", "reset", "start", "step")]
        rows.append([name, *measured, against("reset", "step"), against("start", "step")])
        progress(f"{name}: {rows[-1][-1]['median']:.2f} times the suite's")
    title = f"Processor time to trace and compile {NUM_ENVS} environments, suites' own functions and our vector's"
    return [Table(title=title, columns=COLUMNS, rows=rows)]


def seconds(env_id: str, options: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    """Return the processor seconds of each program in each round, in turn, with nothing kept between them."""
    jax.config.update("jax_enable_compilation_cache", False)
    vector = purerl.vectorize(purerl.make(env_id, **options), NUM_ENVS)
    key, keys = jax.random.key(0), jax.random.split(jax.random.PRNGKey(0), NUM_ENVS)
    state = jax.eval_shape(vector.reset, key)[0]
    action = jax.eval_shape(vector.sample, key)
    start = purerl.backend.start_options(state)
    took: dict[str, list[float]] = {}
    with jax.numpy_dtype_promotion("standard"):
        bare = bare_of(env_id, options)
        reset, step = jax.vmap(bare.reset), jax.vmap(bare.step)
        suite_state, suite_action = jax.eval_shape(reset, keys)[0], jax.eval_shape(jax.vmap(bare.sample), keys)
        jax.eval_shape(step, keys, suite_state, suite_action)  # now the suite has made what it keeps
    jax.block_until_ready(jax.jit(jnp.sum)(jnp.ones(3)))  # and JAX has started
    for _ in range(rounds):
        with jax.numpy_dtype_promotion("standard"):
            _take(took, "bare reset", reset, keys)
            _take(took, "bare step", step, keys, suite_state, suite_action)
        _take(took, "reset", vector.reset, key)
        _take(took, "start", vector.reset, key, compiler_options=start)
        _take(took, "step", vector.step, key, state, action)
    return took


def _take(took: dict[str, list[float]], name: str, function: Any, *args: Any, **options: Any) -> None:
    jax.clear_caches()
    began = time.process_time()
    jax.jit(function, **options).lower(*args).compile()
    took.setdefault(name, []).append(time.process_time() - began)


def bare_of(env_id: str, options: dict[str, Any]) -> Bare:
    """Return a suite's own functions, without the automatic reset that some suites add, and with their defaults."""
    suite, _, name = env_id.partition("/")
    return _BARE[suite](name, **options)


def _craftax(name: str, **options: Any) -> Bare:
    from craftax.craftax_env import make_craftax_env_from_name  # pyright: ignore[reportMissingImports]

    game = make_craftax_env_from_name(name, auto_reset=False, **options)
    params = game.default_params
    return Bare(
        reset=lambda key: game.reset_env(key, params)[::-1],
        step=lambda key, state, action: game.step_env(key, state, action, params),
        sample=lambda key: jax.random.randint(key, (), 0, game.num_actions),
    )


def _brax(name: str, **options: Any) -> Bare:
    from brax import envs

    task = envs.get_environment(name, **options)
    return Bare(
        reset=lambda key: (task.reset(key),),
        step=lambda _, state, action: task.step(state, action),
        sample=lambda _: jnp.zeros(task.action_size),
    )


def _playground(name: str, **options: Any) -> Bare:
    from mujoco_playground import registry  # pyright: ignore[reportMissingImports]

    task = registry.load(name, config_overrides={"impl": "jax"} | options)
    return Bare(
        reset=lambda key: (task.reset(key),),
        step=lambda _, state, action: task.step(state, action),
        sample=lambda _: jnp.zeros(task.action_size),
    )


def _jumanji(name: str, **options: Any) -> Bare:
    import jumanji  # pyright: ignore[reportMissingImports]

    game = jumanji.make(name, **options)  # pyright: ignore[reportPrivateImportUsage]
    return Bare(
        reset=game.reset,
        step=lambda _, state, action: game.step(state, action),
        sample=lambda _: jnp.asarray(game.action_spec.generate_value()),
    )


def _navix(name: str, **options: Any) -> Bare:
    import navix  # pyright: ignore[reportMissingImports]

    room = navix.make(name, **options)
    return Bare(
        reset=lambda key: (room.reset(key),),
        step=lambda _, state, action: room.step(state, action),
        sample=lambda key: room.action_space.sample(key),
    )


def _pgx(name: str, **options: Any) -> Bare:
    import pgx  # pyright: ignore[reportMissingImports]

    game = pgx.make(name, **options)  # pyright: ignore[reportArgumentType]
    return Bare(
        reset=lambda key: (game.init(key),),
        step=lambda key, state, action: game.step(state, action, key),
        sample=lambda key: jax.random.randint(key, (), 0, game.num_actions),
    )


def _jaxmarl(name: str, **options: Any) -> Bare:
    import jaxmarl  # pyright: ignore[reportMissingImports]

    game = jaxmarl.make(name, **options)
    return Bare(
        reset=lambda key: game.reset(key)[::-1],
        step=lambda key, state, action: game.step_env(key, state, action),
        sample=lambda key: {agent: game.action_space(agent).sample(key) for agent in game.agents},
    )


_BARE: dict[str, Callable[..., Bare]] = {
    "brax": _brax,
    "craftax": _craftax,
    "jaxmarl": _jaxmarl,
    "jumanji": _jumanji,
    "navix": _navix,
    "pgx": _pgx,
    "playground": _playground,
}
