"""Numbers of arrays in a file, to compare with; PURERL_WRITE_GOLDEN=1 rewrites it."""

import json
import os
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "golden"
PARTS = 12
WRITE = "PURERL_WRITE_GOLDEN" in os.environ


def file(name):
    """Yield the numbers of a file, for a fixture; if they are rewritten, those of cases that do not run stay."""
    path = FOLDER / name
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    yield known
    if WRITE:
        lines = [f"{json.dumps(case)}: {json.dumps(numbers)}" for case, numbers in known.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def check(known, case, arrays):
    """Compare arrays by name with what is known of a case."""
    found = digest(arrays)
    if WRITE:
        known[case] = found
    assert case in known, f"{case} is not in the file: write it with PURERL_WRITE_GOLDEN=1"
    assert found.keys() == known[case].keys(), case
    for name, parts in known[case].items():
        size = max(abs(number) for part in parts for number in part)
        for index, (now, numbers) in enumerate(zip(found[name], parts, strict=True)):
            atol = 2e-3 * max(map(abs, numbers)) + 1e-5 * size + 1e-6
            message = f"{case}: {name}, part {index} of {len(parts)}"
            np.testing.assert_allclose(now, numbers, rtol=2e-3, atol=atol, err_msg=message)


def digest(arrays):
    """Return {name: [(a weighted mean, the largest) of each of at most `PARTS` parts]} of arrays."""
    numbers = {}
    for name, x in arrays.items():
        x = np.asarray(x, np.float64).ravel()
        if x.size:
            parts = np.array_split(x, min(x.size, PARTS))
            numbers[name] = [
                [_short(np.mean(np.cos(np.arange(part.size)) * part)), _short(np.abs(part).max())] for part in parts
            ]
    return numbers


def _short(number):
    return float(f"{number:.5g}")
