"""The groups of figures by name; a part of a group is named GROUP.PART."""

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.opponents import Opponent
from benchmarks.tables import Table
from purerl.errors import unknown


class Request(NamedTuple):
    """The options of a measurement."""

    trainers: Sequence[Opponent]  # frameworks that train the same problems
    hosts: Sequence[Opponent]  # frameworks whose host environments are compared with purerl's
    gymnax: bool  # whether gymnax's environments are compared, too
    envs: Sequence[str]  # which environments, for the group of that name
    runs: int  # timed runs of each program
    size: float  # a factor on the steps of each run; below 1 the figures show only that it works
    minutes: float = 30.0  # minutes for all groups of faults together
    tiny: bool = False  # for the group gpu: few environments, seeds and steps, on any device

    def seconds(self, share: float) -> float:
        """Return the seconds of a group of faults that has a share of the minutes."""
        return 60.0 * self.minutes * share


class Benchmark(NamedTuple):
    """One group of figures, or one part of a group."""

    function: str  # module:function, Request -> list[Table]
    help: str

    def measure(self, request: Request) -> list[Table]:
        """Return its tables."""
        module, _, name = self.function.partition(":")
        function: Callable[[Request], list[Table]] = getattr(importlib.import_module(f"benchmarks.{module}"), name)
        return function(request)


BENCHMARKS = {
    "training": Benchmark("training:measure", "PPO and PQN, one seed"),
    "offpolicy": Benchmark("training:measure_off_policy", "DQN and SAC; a batch drawn from each kind of replay"),
    "suites.brax": Benchmark("training:measure_brax", "PPO and SAC on brax's robots, beside its own"),
    "suites.craftax": Benchmark("training:measure_craftax", "PPO on Craftax, beside Craftax_Baselines"),
    "suites.jaxmarl": Benchmark("training:measure_jaxmarl", "IPPO, MAPPO and QMIX on JaxMARL, beside its own"),
    "suites.pgx": Benchmark("training:measure_pgx", "PPO and AlphaZero on pgx, beside its examples"),
    "host": Benchmark("training:measure_host", "PPO on Pong and SAC on HalfCheetah, beside CleanRL's"),
    "environments": Benchmark("environments:measure", "environments alone under random actions"),
    "seeds": Benchmark("seeds:measure", "1, 16 and 256 seeds of PPO, on one device and on all"),
    "compile": Benchmark("compile_time:measure", "imports, the first update, whole commands, compilation"),
    "passes": Benchmark("passes:measure", "compilation of PPO by phase, for a CPU and for an H200"),
    "adapters": Benchmark("adapters:measure", "compilation of adapters beside the suites' own step and reset"),
    "twins": Benchmark("twins:measure", "PPO on native MinAtar and on pgx's: final returns over five seeds"),
    "memory": Benchmark("seeds:measure_memory", "processes that train 1 and 256 seeds"),
    "gpu.kernels": Benchmark("gpu:measure_kernels", "kernels of an update on an H200, by the compiler"),
    "gpu.launches": Benchmark("gpu:measure_launches", "loops as CUDA graphs, and as JAX launches them"),
    "gpu.ppo": Benchmark("gpu:measure_ppo", "PPO on CartPole on a GPU, 4 x 128"),
    "gpu.ppo-wide": Benchmark("gpu:measure_wide_ppo", "PPO on CartPole on a GPU, 2048 x 128"),
    "gpu.fused": Benchmark("fused_rollout:measure", "PPO on CartPole on a GPU with rollouts of one kernel"),
    "gpu.breakout": Benchmark("gpu:measure_breakout", "PPO on MinAtar's Breakout on a GPU"),
    "gpu.dqn": Benchmark("gpu:measure_dqn", "DQN on CartPole on a GPU"),
    "gpu.pqn": Benchmark("gpu:measure_pqn", "PQN on CartPole on a GPU"),
    "gpu.seeds-2048": Benchmark("gpu:measure_2048_seeds", "2048 seeds of PPO on a GPU"),
    "gpu.seeds-10000": Benchmark("gpu:measure_10000_seeds", "10,000 seeds of PPO on a GPU"),
    "gpu.compile": Benchmark("program_parts:measure", "compilation of PPO on a GPU by part, 1 and 2048 seeds"),
    "gpu.brax": Benchmark("gpu:measure_brax", "PPO on brax's ant on a GPU"),
    "gpu.grid-5": Benchmark("gpu:measure_small_grid", "2000 grid worlds of tag with 5 agents on a GPU"),
    "gpu.grid-100": Benchmark("gpu:measure_large_grid", "2000 grid worlds of tag with 100 agents on a GPU"),
    "gpu.tag-105": Benchmark("gpu:measure_small_crowd", "2000 planes of tag with 105 agents on a GPU"),
    "gpu.tag-1000": Benchmark("gpu:measure_large_crowd", "2000 planes of tag with 1000 agents on a GPU"),
    "gpu.craftax-classic": Benchmark("gpu:measure_craftax_classic", "PPO on Craftax-Classic on a GPU"),
    "gpu.craftax": Benchmark("gpu:measure_craftax", "PPO on Craftax on a GPU"),
    "gpu.tests": Benchmark("gpu:measure_tests", "the tests that need a GPU"),
    "pool.throughput": Benchmark("pool:throughput", "1024 CartPoles, NumPy in and out, beside EnvPool's"),
    "pool.inside": Benchmark("pool:inside", "a loop of acting and stepping: XLA interfaces, callbacks, Python"),
    "pool.alternating": Benchmark("pool:alternating", "the sampler alternating against batched"),
    "pool.async": Benchmark("pool:asynchronous", "the sampler async against serial, and its idle time"),
    "pool.modes": Benchmark("pool:modes", "all samplers where a step takes as long as acting"),
    "pool.train": Benchmark("pool:train", "PPO on EnvPool's CartPole, whole runs"),
    "pool.atari": Benchmark("pool:atari", "Pong, bare and under PPO with each sampler"),
    "scale.seeds": Benchmark("scale:seeds", "many seeds in one program: speed and memory of each"),
    "scale.devices": Benchmark("scale:devices", "seeds on two host devices against one"),
    "scale.machinery": Benchmark("scale:machinery", "a sweep against the bare program of the same work"),
    "scale.compilations": Benchmark("scale:compilations", "programs that a sweep compiles"),
    "scale.halving": Benchmark("scale:halving", "successive halving against the full grid"),
    "bounds": Benchmark("bounds:measure", "IPPO, PQN and PPO: an update, its environment and its products"),
    "convolutions": Benchmark("convolutions:measure", "networks for images, forward and trained, beside PyTorch's"),
    "costs": Benchmark("costs:measure", "time and memory of an update as one size doubles eight times"),
    "evolution.speed": Benchmark("training:measure_evolution", "a generation of LPO, beside PureJaxRL with evosax"),
    "evolution.overhead": Benchmark("evolution:overhead", "a generation against its trainings alone"),
    "evolution.discover": Benchmark("evolution:discover", "LPO evolved from nothing in ten minutes, compared"),
    "multi_agent.step": Benchmark("multi_agent:step", "tag of 105 agents, random actions, beside NumPy"),
    "multi_agent.memory": Benchmark("multi_agent:memory", "1000 agents x 100 environments: compilation and bytes"),
    "multi_agent.train": Benchmark("multi_agent:train", "WarpDrive's gridworld by A2C"),
    "multi_agent.scale": Benchmark("multi_agent:scale", "training steps over agents x environments"),
    "multi_agent.learn": Benchmark("multi_agent:learn", "trained taggers and runners against random ones"),
    "optimizations": Benchmark("optimizations:measure", "each optimization taken away: speed and return"),
    "faults.kills": Benchmark("faults.kills:measure", "kill -9 and signals at random moments, then resumed"),
    "faults.damages": Benchmark("faults.damages:measure", "each file of each kind of folder damaged in six ways"),
    "faults.disks": Benchmark("faults.disks:measure", "disks that are full, read-only, gone; descriptors, memory"),
    "faults.surroundings": Benchmark("faults.surroundings:measure", "locales, users, terminals, paths, limits"),
    "faults.environments": Benchmark("faults.environments:measure", "broken environments under each sampler"),
    "faults.folders": Benchmark("faults.folders:measure", "crafted folders, from which nothing may run"),
}
DEFAULT = ("training", "offpolicy", "environments", "seeds", "compile", "memory", "gpu.kernels")


def select(words: Sequence[str]) -> list[str]:
    """Return the names that some words stand for: GROUP or GROUP.PART; none: `DEFAULT`.

    Raises:
      InputError: for an unknown word.
    """
    parts: dict[str, list[str]] = {name: [name] for name in BENCHMARKS}
    for name in BENCHMARKS:
        if "." in name:
            parts.setdefault(name.partition(".")[0], []).append(name)
    for word in words:
        if word not in parts:
            raise unknown("group of figures", word, parts, limit=len(parts))
    return list(dict.fromkeys(name for word in words or DEFAULT for name in parts[word]))
