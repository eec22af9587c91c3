"""Time to the first curve: imports, the help page, the first update, whole commands, and compilation."""

import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks import tables
from benchmarks.groups import Request
from benchmarks.seeds import WAYS, train
from benchmarks.tables import Table
from benchmarks.timing import progress, spread, without_cache

USE = "import purerl; from purerl.algos.ppo import ppo, PPOConfig; purerl.make_trainer; purerl.make('CartPole-v1')"
UPDATE = (
    "from purerl.run import cache; cache.enable(); import jax; import purerl; "
    "from purerl.algos.ppo import ppo, PPOConfig; "
    "trainer = purerl.make_trainer(ppo, purerl.make('CartPole-v1'), PPOConfig()); "
    "step = lambda key: trainer.step(trainer.init(key)); jax.block_until_ready(jax.jit(step)(jax.random.key(0)))"
)
COLUMNS = tables.columns("what: text; seconds: seconds; against import jax: ratio")


def measure(request: Request) -> list[Table]:
    """Return the seconds of whole processes, from typing to the end, and of compilations without a cache."""
    runs, steps = request.runs, max(int(500_000 * request.size), 5_120)
    python = lambda code: [sys.executable, "-c", code]
    purerl = lambda *words: [sys.executable, "-m", "purerl", *words]
    command = purerl("train", "ppo", "CartPole-v1", "--plain", "--total-timesteps", str(steps))
    rows: list[list[Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        imports = processes(python("import jax"), runs)
        jax_alone = statistics.median(imports)
        light = [
            ("import jax", imports),
            ("import purerl", processes(python("import purerl"), runs)),
            ("all that PPO on CartPole-v1 imports", processes(python(USE), runs)),
            ("purerl --help", processes(purerl("--help"), runs)),
        ]
        rows += [[what, spread(seconds), statistics.median(seconds) / jax_alone] for what, seconds in light]
        for index, (what, line) in enumerate(
            (
                ("first update of PPO, CartPole-v1, whole process", python(UPDATE)),
                (f"purerl train ppo CartPole-v1, {steps:,} steps, whole process", [*command, "--out"]),
            )
        ):
            cached = without_cache() | {"XDG_CACHE_HOME": f"{folder}/cache-{index}"}
            for attempt in ("no cache", "with its cache"):
                full = [*line, f"{folder}/{attempt}"] if line[-1] == "--out" else line
                rows.append([f"{what}, {attempt}", processes(full, 1, cached)[0], None])
                progress(f"{rows[-1][0]}: {rows[-1][1]:.1f} s")
    for seeds, way in ((1, "alone"), (256, "vmap")):
        compiling = spread([train(seeds, 512, 1, way)["compile"] for _ in range(min(runs, 3))])
        rows.append([f"compiling {WAYS[way]} of PPO, CartPole-v1, seeds: {seeds}", compiling, None])
    return [Table(title="Time to the first curve", columns=COLUMNS, rows=rows)]


def processes(line: list[str], runs: int, environment: dict[str, str] | None = None) -> list[float]:
    """Return the seconds of each of `runs` processes, after one that reads the files from disk if there are more."""
    seconds = []
    for _ in range(runs + (runs > 1)):
        began = time.perf_counter()
        subprocess.run(line, check=True, env=environment or without_cache(), capture_output=True)
        seconds.append(time.perf_counter() - began)
    return seconds[runs > 1 :]
