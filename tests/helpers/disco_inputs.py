"""Random rollouts and weights for Disco's rule, in NumPy alone: the reference implementation is given the same ones."""

import os
from pathlib import Path

import numpy as np

NUM_UPDATES = 8
ROOT = Path(__file__).parents[2]
WEIGHTS = Path(os.environ.get("PURERL_DISCO_WEIGHTS", ROOT / ".cache" / "disco_103.npz"))  # not a part of the project
CASES = {  # name -> (T, B, A, categories of y and z, atoms, the largest atom)
    "small": (6, 3, 4, 5, 11, 5.0),
    "disco103": (5, 2, 3, 600, 601, 300.0),
}
SMALL = {"predictions": 5, "units": 6, "lifetime_units": 4, "hidden": 3}  # the sizes of a small meta-network


def batches(case):
    """Return the inputs of NUM_UPDATES updates: dicts of float64 and int arrays, predictions in T + 1 states."""
    random = np.random.RandomState(7)  # its numbers are the same in every version of NumPy
    return [_batch(random, *CASES[case]) for _ in range(NUM_UPDATES)]


def _batch(random, length, size, actions, predictions, atoms, most):
    states = (length + 1, size)
    peak = -np.abs(np.linspace(-most, most, atoms)) / most * 12.0  # values near 0 are likely

    def heads():
        return {
            "policy": random.normal(size=(*states, actions)),
            "y": random.normal(size=(*states, predictions)),
            "z": random.normal(size=(*states, actions, predictions)),
            "q": random.normal(size=(*states, actions, atoms)) + peak,
            "next_policy": random.normal(size=(*states, actions, actions)),
        }

    return {
        "action": random.randint(0, actions, size=states),
        "reward": random.normal(size=(length, size)),
        "terminated": random.uniform(size=(length, size)) < 0.2,
        "behavior": random.normal(size=(*states, actions)),
        "agent": heads(),
        "target": heads(),
    }


def small_weights(shapes):
    """Return {name: f32} of given shapes, of a size at which every part of the network counts."""
    random = np.random.RandomState(3)
    spread = lambda shape: 0.3 if len(shape) == 1 else 1.5 / np.sqrt(np.prod(shape[:-1]))
    return {name: (spread(shape) * random.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()}
