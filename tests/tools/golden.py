"""Trains everything a little and compares checksums: a restructuring must keep results bit-identical.

    PYTHONPATH=OLD python tests/tools/golden.py --write golden.json --cache ~/.cache/golden
    PYTHONPATH=NEW python tests/tools/golden.py --compare golden.json --cache ~/.cache/golden --jobs 2
    PYTHONPATH=NEW python tests/tools/golden.py --compare golden.json --only ppo,levels

The same tool runs against both trees, so it uses public names only. Compare on the machine that wrote the file, because
results differ in their last bits between processors and versions of XLA. The folder golden.runs next to the file holds
run folders of the old tree, which the new one must resume. Seconds are CPU time.
"""

import argparse
import contextlib
import gc
import io
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jax
from golden_cases import CASES

import purerl

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "PJRT_NPROC": "1",  # the same sums on any number of cores
    "XLA_FLAGS": "--xla_backend_optimization_level=1 --xla_cpu_parallel_codegen_split_count=1",  # compiles faster
}


def end_with_parent():
    """Let a worker exit when the process that started it is killed."""
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def train_case(name):
    """Return (CPU seconds, checksums or None, traceback)."""
    start = sum(os.times()[:4])
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        try:
            case, error = CASES[name](folder=Path(folder)), ""
        except Exception:
            case, error = None, traceback.format_exc()
    jax.clear_caches()
    gc.collect()
    return sum(os.times()[:4]) - start, case, error


def compared(old, new):
    """Return "same", or what differs between the checksums of a case; a leaf's name alone does not count."""
    words = []
    for part in sorted((old.keys() | new.keys()) - {"sum"}):
        before, after = old.get(part, []), new.get(part, [])
        sums = [[x for _, x in leaves] for leaves in (before, after)]
        if sums[0] == sums[1]:
            continue
        was, now = dict(before), dict(after)
        kinds = {
            "changed": [name for name in was.keys() & now.keys() if was[name] != now[name]],
            "gone": was.keys() - now.keys(),
            "new": now.keys() - was.keys(),
        }
        listed = [f"{kind} {len(names)}: {', '.join(sorted(names)[:6])}" for kind, names in kinds.items() if names]
        words.append(f"{part} {'reordered' if sorted(sums[0]) == sorted(sums[1]) else '; '.join(listed)}")
    return f"different: {'; '.join(words)}; sum was {old['sum']}, is {new['sum']}" if words else "same"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE.json", help="write checksums; with --only, keep the others")
    action.add_argument("--compare", type=Path, metavar="FILE.json", help="compare with these; exit 1 on a difference")
    action.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--only", default="", metavar="WORDS", help="cases whose name contains one, such as ppo,levels")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep compiled programs here between calls")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases run at once; default 1")
    wanted = parser.parse_args()
    names = [name for name in CASES if any(word in name for word in wanted.only.split(","))]
    if wanted.list:
        print("\n".join(names))
        return 0
    file, before, bad = wanted.write or wanted.compare, {}, 0
    if wanted.compare and not file.exists():
        parser.error(f"{file} does not exist")
    if wanted.compare or (wanted.only and file.exists()):
        before = json.loads(file.read_text())
    os.environ |= ENVIRONMENT | {"GOLDEN_RUNS": str(file.resolve().with_suffix(".runs"))}
    if wanted.write:
        os.environ["GOLDEN_WRITES"] = "1"
    if wanted.cache:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(wanted.cache.resolve())
    print(f"purerl of {Path(purerl.__file__).parents[1]}", flush=True)
    with ProcessPoolExecutor(wanted.jobs, multiprocessing.get_context("spawn"), end_with_parent) as pool:
        for name, (seconds, case, error) in zip(names, pool.map(train_case, names), strict=True):
            if case is None:
                line, good = f"failed\n{error}", False
            elif wanted.compare:
                line = compared(before[name], case) if name in before else "missing in the file"
                good = line == "same"
            else:
                line, good = f"sum {case['sum']}", True
                before[name] = case
                file.write_text(json.dumps(before, indent=0) + "\n")
            bad += not good
            print(f"{name}: {line} ({seconds:.0f} s)", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
