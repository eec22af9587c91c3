"""Kills and signals at random moments of training runs, sweeps and evolutions, which are then resumed."""

import itertools
import random
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults.runner import HUNG, Running
from benchmarks.faults.tally import Case, References, Verdict, campaign, differences
from benchmarks.groups import Request
from benchmarks.tables import Table
from purerl.devices import distributed

SMALL = "--num-envs 2 --hidden-sizes 4 --plain --no-cache"
RUN = f"a2c Catch {SMALL} --rollout-length 4 --eval-episodes 4 --evaluations 2 --checkpoint-interval 0 --log-interval 4"
SWEEP = f"sweep a2c Catch {SMALL} --rollout-length 4 --seeds 1 --points 4 --over learning_rate=1e-3:1e-2"
PROGRAMS = {  # name -> (words, processes)
    "train": (f"train {RUN} --total-timesteps 320", 1),
    "train, 2 seeds": (f"train {RUN} --total-timesteps 320 --seeds 2", 1),
    "train dqn": (
        f"train dqn Catch {SMALL} --replay-capacity 256 --learning-starts 16 --batch-size 8 "
        "--total-timesteps 400 --eval-episodes 4 --evaluations 2 --checkpoint-interval 0 --log-interval 20",
        1,
    ),
    "sweep, random": (f"{SWEEP} --trials 4 --chunk 1 --total-timesteps 320", 1),
    "sweep, halving": (
        f"{SWEEP} --method halving --trials 3 --rungs 2 --checkpoint-interval 0 --total-timesteps 320",
        1,
    ),
    "sweep, pbt": (
        f"{SWEEP} --method pbt --trials 4 --generations 4 --checkpoint-interval 0 --total-timesteps 320",
        1,
    ),
    "evolve": (
        f"evolve ppo --tasks Catch {SMALL} --rollout-length 8 --num-minibatches 1 --num-epochs 1 --population 4 "
        "--generations 6 --checkpoint-generations 1 --frames 2 --total-timesteps 128",
        1,
    ),
    "2 processes": (f"train {RUN} --total-timesteps 320 --seeds 2", 2),
    "4 processes": (f"train {RUN} --total-timesteps 320 --seeds 4", 4),
}
TURNS = [*PROGRAMS] * 3  # several processes take long: they come once in three rounds
TURNS = [name for i, name in enumerate(TURNS) if PROGRAMS[name][1] < 2 or i >= 2 * len(PROGRAMS)]
STRIKES = 3  # in a row, before a job may come to its end
SIGNALS = {"kill": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT, "HUP": signal.SIGHUP}
NOTICE_SECONDS = distributed.START_SECONDS  # others wait so long for one that died before they came together


def measure(request: Request) -> list[Table]:
    """Strike jobs until the time limit."""
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        references = References(Path(folder))
        return campaign("kill -9 and signals", cases(references), request.seconds(0.4))


def cases(references: References, seed: int | None = None) -> Iterator[Case]:
    """Yield chains of strikes, without end."""
    chance = random.Random(seed)
    for name in itertools.cycle(TURNS):
        yield Case(kind=name, name="a chain of strikes", attempt=partial(_chain, name, references, chance))


def _chain(name: str, references: References, chance: random.Random, work: Path, strikes: int = STRIKES) -> Verdict:
    text, processes = PROGRAMS[name]
    words, folder = text.split(), work / "job"
    reference, whole = references(name, words + (["--devices", str(processes)] if processes > 1 else []))
    struck: list[str] = []
    command = ""
    for turn in range(strikes + 1):
        begun = folder.exists()
        now = [words[0], "--resume", str(folder), "--plain", "--no-cache"] if begun else [*words, "--out", str(folder)]
        strike = chance.choice(("kill", "kill", "operation", "TERM", "INT", "HUP")) if turn < strikes else ""
        count = int(2 ** chance.uniform(0, 8)) if strike == "operation" else 0
        jobs = _start(now, processes, count, work)
        command = f"{'; '.join([*struck, strike])}: {jobs[0].command}"
        if strike and not count:
            time.sleep(chance.uniform(0, whole.seconds * (0.7 if begun else 1.0)))
            jobs[chance.randrange(processes)].signal(SIGNALS[strike])
        done = [job.wait(NOTICE_SECONDS + 4 * whole.seconds) for job in jobs]
        text = "\n".join(end.text for end in done)
        codes = {end.code for end in done}
        allowed = _codes("kill" if strike == "operation" else strike, processes)
        command = f"{command}\n{text[-1500:]}" if any(end.traceback for end in done) else command
        if any(end.traceback for end in done) or not codes <= allowed or HUNG in codes:
            lines = "; ".join(f"{end.code}: {end.last_line}" for end in done)
            wrong = f"ended with {lines}" if not codes <= allowed else ""
            return Verdict(
                tries=len(struck) + 1, other=wrong, traceback=any(end.traceback for end in done), command=command
            )
        if codes == {0} and not strike:
            lost = differences(reference, folder)
            return Verdict(tries=max(len(struck), 1), lost=lost, command=command if lost else "")
        if codes != {0}:
            at = f" at file operation {count}" if count else ""
            struck.append(f"{strike}{at}")
    return Verdict(tries=len(struck), other="the last resume did not come to the end", command=command)


def _codes(strike: str, processes: int) -> set[int | str]:
    """Return how processes may end that got a signal: saved; before there is a handler; already at the end.

    The others fail, are aborted by JAX, or wait for one that does not come.
    """
    number = SIGNALS.get(strike, 0)
    return {0, 128 + number, -number, *([1, 2, -signal.SIGABRT] if processes > 1 else [])}


def _start(words: list[str], processes: int, operation: int, work: Path) -> list[Running]:
    if processes == 1:
        return [Running(words, strike=operation, within=str(work))]
    with socket.create_server(("localhost", 0)) as probe:
        port = probe.getsockname()[1]
    others = f"--distributed --coordinator localhost:{port} --num-processes {processes}".split()
    one = {"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    return [
        Running([*words, *others, "--process-index", str(i)], env=one, strike=0 if i else operation, within=str(work))
        for i in range(processes)
    ]
