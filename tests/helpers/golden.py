"""Numbers of arrays in a file, to compare with; PURERL_WRITE_GOLDEN=1 writes it anew."""

import json
import os
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "golden"
WRITE = "PURERL_WRITE_GOLDEN" in os.environ


def file(name):
    """Yield the numbers of a file, for a fixture; where they are written anew, those of cases that do not run stay."""
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
    for name, numbers in known[case].items():
        size = max(map(abs, numbers))
        np.testing.assert_allclose(found[name], numbers, rtol=2e-3, atol=2e-3 * size + 1e-6, err_msg=f"{case}: {name}")


def digest(arrays):
    """Return {name: [mean, a weighted mean, largest]} of arrays."""
    numbers = {}
    for name, x in arrays.items():
        x = np.asarray(x, np.float64).ravel()
        if x.size:
            weights = np.cos(np.arange(x.size) + 1.0)
            numbers[name] = [float(f"{value:.6g}") for value in (x.mean(), (weights * x).mean(), np.abs(x).max())]
    return numbers
