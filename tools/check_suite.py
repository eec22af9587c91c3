"""Make, check and train on every id of a suite, each in a separate process, as reported in `results/suites/`.

python tools/check_suite.py gymnax
python tools/check_suite.py brax --env.backend spring --only 'inverted*' --out brax-spring.json
"""

import contextlib
import fnmatch
import importlib.metadata
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from purerl import registry
from purerl.catalog.environments import SUITES
from purerl.commands.algorithm_command import EnvironmentCommand
from purerl.commands.cli import main
from purerl.commands.options import PATH, check_file, say, typed
from purerl.errors import InputError, unknown
from purerl.reporting import summary
from purerl.reporting.files import write_whole
from purerl.spaces import Box, Discrete

STEPS = 2_048  # environment steps of a training run
CHECKED_STEPS = 32  # steps of random play
SMALL = {"num_envs": 8, "network": "mlp", "hidden_sizes": (16,), "total_timesteps": STEPS}
ON_POLICY = {"rollout_length": 32, "num_minibatches": 2, "num_epochs": 1}
OFF_POLICY = {"replay_capacity": 1_024, "learning_starts": 256, "batch_size": 32}
ALGORITHMS = {  # by kind of action space: two algorithms that learn differently
    Discrete: {"ppo": ON_POLICY, "dqn": OFF_POLICY},
    Box: {"ppo": ON_POLICY, "sac": OFF_POLICY},
    None: {"ppo": ON_POLICY, "a2c": {"rollout_length": 32}},
}
LIMIT = 600.0  # seconds that an id may take
ALONE = "--alone"  # the first word of an id's process


def check_suite(
    suite: str,
    file: Path,
    limit: float = LIMIT,
    tell: Callable[[str], None] = print,
    *,
    only: Sequence[str] = (),
    fields: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Check every id of a suite, one after the other; ids that the file already holds are skipped.

    Args:
      suite: a name in `purerl.catalog.environments.SUITES`, or "native".
      file: the JSON report, rewritten after each id: results, versions and date.
      limit: time limit per id, in seconds.
      tell: called with one line per id.
      only: patterns of the ids to check, without the suite's name, such as "MiniGrid-*". Empty: all.
      fields: environment parameters for every id.

    Returns:
      What the file holds: {"suite", "package", "fields", "offered": number of the suite's ids, "versions", "date",
      "ids": {id: {"failed": text or "", "done": phases, "compile_seconds", "seconds", "peak_mb"}}}.

    Raises:
      InputError: if there is no such suite, it is not installed, nothing matches, or the file is not one of these.
    """
    every, fields = registry.names(None if suite == "native" else suite), dict(fields)
    names = [name for name in every if not only or any(_matches(name, pattern) for pattern in only)]
    for pattern in only:
        if not any(_matches(name, pattern) for name in every):
            raise unknown(f"environment of {suite}", pattern, [name.removeprefix(f"{suite}/") for name in every])
    known = _read(file, suite, fields)
    package = _package(suite)
    report: dict[str, Any] = {"suite": suite, "package": package, "fields": fields, "offered": len(every)}
    report |= {"versions": summary.versions(package)}
    report |= {"date": date.today().isoformat(), "ids": known}
    for number, name in enumerate(names):
        if name not in known:
            known[name] = check_id(name, limit, fields)
            write_whole(file, json.dumps(report, indent=1) + "\n")
        tell(f"{number + 1}/{len(names)} {line(name, known[name])}")
    return report


def check_id(name: str, limit: float = LIMIT, fields: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return what was found of an id, made with `fields`, in a process of its own: an entry of "ids"."""
    began, told = time.perf_counter(), [*_lines(name, limit, fields)]
    found: dict[str, Any] = {"failed": "", "done": [], "compile_seconds": None, "peak_mb": None}
    for entry in told:
        found["done"] += [entry.pop("done")] if "done" in entry else []
        found |= entry
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def line(name: str, found: dict[str, Any]) -> str:
    """Return what was found of an id, in a line."""
    compiled = found["compile_seconds"]
    figures = [f"compiled in {compiled} s"] if compiled is not None else []
    figures += [f"{found['seconds']} s", f"{found['peak_mb']} MB"]
    return f"{name}: {', '.join(found['done']) or 'nothing'}" + (
        f"; FAILED: {found['failed']}" if found["failed"] else f" ({', '.join(figures)})"
    )


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name.partition("/")[2] or name, pattern)


def _read(file: Path, suite: str, fields: dict[str, Any]) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        report = json.loads(file.read_text())
        if report["suite"] == suite and report["fields"] == fields and isinstance(report["ids"], dict):
            return report["ids"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    made = "".join(f" with {name} {value}" for name, value in fields.items())
    raise InputError(f"{file} exists, and is no report on {suite}{made}; name another by --out")


def _package(suite: str) -> str:
    """Return the name by which a suite is installed."""
    if suite == "native":
        return "purerl"
    package = SUITES[suite].package
    return importlib.metadata.packages_distributions().get(package, [package])[0]


def _lines(name: str, limit: float, fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Run an id's process; yield what it told, and what became of it if it did not come to its end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile("w+") as told,
        tempfile.TemporaryFile() as said,
    ):
        words = [sys.executable, __file__, ALONE, name, json.dumps(dict(fields))]
        process = subprocess.Popen(words, stdout=told, stderr=said, cwd=folder, stdin=subprocess.DEVNULL)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(limit)
        finally:
            over = process.poll() is None
            process.kill()
            process.wait()
        told.seek(0)
        entries = [json.loads(text) for text in told.read().splitlines() if text.startswith('{"')]
        yield from entries
        if over:
            yield {"failed": f"it takes more than {limit:g} s"}
        elif process.returncode and not any("failed" in entry for entry in entries):
            said.seek(0)
            last = said.read().strip().splitlines()[-1:] or ["nothing was said"]
            yield {"failed": f"the process ended with {process.returncode}: {last[0][:200]}"}


def check_here(name: str, text: str) -> None:
    """Make, step, check and train on an id, its fields in JSON; print a line of JSON for each that succeeded."""
    shown = sys.stdout
    fields = json.loads(text)
    sys.stdout = sys.stderr  # suites print

    def tell(**entry: Any) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10)
        print(json.dumps(entry | {"peak_mb": peak}), file=shown, flush=True)

    doing = "make"
    try:
        from purerl.host_environment import HostSource
        from purerl.run import cache, short_training
        from purerl.run.environments import make_environment
        from purerl.settings.runs import settings
        from purerl.testing.environments import check_environment

        env = make_environment(name, fields)
        tell(done="made")
        if not isinstance(env, HostSource):  # training steps those that run on the host
            doing = "step"
            tell(compile_seconds=round(_steps(env), 1))
            tell(done="stepped")
            doing = "check"
            foreign = "/" in name  # its engine takes minutes step by step; its starts are the suite's own
            check_environment(env, num_steps=CHECKED_STEPS, name=name, eager=not foreign, same_start=foreign)
            tell(done="checked")
        actions = env.action_space
        kind = next((kind for kind in ALGORITHMS if kind is not None and isinstance(actions, kind)), None)
        cache.enable()  # ids of one suite often have one program
        for algorithm, values in ALGORITHMS[kind].items():
            doing = f"train {algorithm}"
            sampled = {"sampler": "serial"} if isinstance(env, HostSource) else {}
            short_training.train(settings(algorithm, name, SMALL | values | sampled, fields))
            tell(done=algorithm)
    except BaseException as error:  # whatever a suite raises, the end of the process included
        text = " ".join(str(error).split()) or "no message"
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        tell(failed=f"{doing}: {kind}{text[:300]}")
        raise SystemExit(1) from None


def _steps(env: Any) -> float:
    """Take 20 steps of random play in a compiled program; return the seconds that compiling `reset` and `step` took."""
    import jax

    key = jax.random.key(0)
    began = time.perf_counter()
    reset = jax.jit(env.reset).lower(key).compile()
    state, _ = reset(key)
    action = env.action_space.sample(key)
    step = jax.jit(env.step).lower(key, state, action).compile()
    seconds = time.perf_counter() - began
    for i in range(20):
        state, _ = jax.block_until_ready(step(jax.random.fold_in(key, i), state, action))
    return seconds


@click.command(cls=EnvironmentCommand)
@click.argument("suite")
@click.option("--only", metavar="PATTERN", multiple=True, help="These ids alone, such as 'MiniGrid-*'; repeatable.")
@click.option("--out", type=PATH, metavar="FILE", help="The report, continued if it exists; default suite-NAME.json.")
@click.option("--limit", type=click.FloatRange(1.0), default=LIMIT, metavar="SECONDS", help="Time for an id.")
def command(suite: str, only: tuple[str, ...], out: Path | None, limit: float) -> None:
    """Check every id of a suite, or of native, and train on each with two algorithms."""
    file = out or Path(f"suite-{suite}.json")
    check_file(file, ".json")
    report = check_suite(suite, file, limit, say, only=only, fields=typed({})[0])
    failed = sum(bool(found["failed"]) for found in report["ids"].values())
    say(f"{len(report['ids']) - failed} of {len(report['ids'])} ids hold; see {file}")
    if failed:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == [ALONE]:
        check_here(*sys.argv[2:])
    else:
        main(command=command, name="check_suite")
