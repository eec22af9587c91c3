"""Broken environments under each sampler: the run ends in time with a line that says what happened."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults import runner
from benchmarks.faults.broken import HOST_FAULTS, JAX_FAULTS
from benchmarks.faults.kills import SMALL
from benchmarks.faults.tally import Case, Verdict, campaign, ended
from benchmarks.groups import Request
from benchmarks.tables import Table

FLAGS = f"{SMALL} --rollout-length 8 --total-timesteps 160 --eval-episodes 2 --evaluations 1 --log-interval 4"
SAMPLERS = ("serial", "batched", "alternating", "async", "inside")
TIME_LIMIT = 5.0  # seconds that a step of an environment may take
GOES_ON = ("NaN reward", "infinite reward", "NaN observation", "NaN in reset")  # reported as a failed seed
EXITS = "os._exit in step"


def measure(request: Request) -> list[Table]:
    """Train in them until the time limit."""
    return campaign("broken environments", cases(), request.seconds(0.12))


def cases(seed: int | None = None) -> Iterator[Case]:
    """Yield each fault once, host ones under each sampler, in a random order."""
    chance = random.Random(seed)
    found = [("JAX", fault, "auto") for fault in JAX_FAULTS]
    found += [("JAX on the host", fault, "batched") for fault in JAX_FAULTS]
    found += [(f"host, {sampler}", fault, sampler) for fault in HOST_FAULTS for sampler in SAMPLERS]
    for kind, fault, sampler in chance.sample(found, len(found)):
        name = (
            "gymnasium/benchmarks.faults.broken:Broken-v0"
            if kind.startswith("host")
            else "benchmarks.faults.broken:Broken"
        )
        yield Case(kind=kind, name=fault, attempt=partial(_attempt, name, fault, sampler))


def _attempt(name: str, fault: str, sampler: str, work: Path) -> Verdict:
    limit = ["--step-time-limit", str(TIME_LIMIT)] if name.startswith("gymnasium") else []
    words = ["train", "a2c", name, *FLAGS.split(), "--env.fault", fault, "--sampler", sampler, *limit]
    done = runner.run(*words, "--out", str(work / "job"), cwd=work)
    verdict = ended(done)
    told = done.code in (1, 2) or fault in GOES_ON or "seed" in done.text
    if not verdict.failed and not told:
        verdict = verdict._replace(lost=f"not a word of it: {done.last_line}")
    if not verdict.failed and fault == EXITS and "exit code 9" not in done.text:
        verdict = verdict._replace(lost=f"its exit code is not told: {done.last_line}")
    return verdict._replace(command=f"{done.command}\n{done.text[-1200:]}")
