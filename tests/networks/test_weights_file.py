"""Files of weights: what is read, and that anything else ends in one line without running code."""

import pickle

import numpy as np
import pytest

import purerl
from purerl.networks import weights_file
from purerl.networks.meta_network import MetaSizes, layer_shapes
from tests.helpers.disco_inputs import SMALL, WEIGHTS, small_weights

SIZES = MetaSizes(**SMALL)


class Harmful:
    def __reduce__(self):
        return (pytest.fail, ("code of the file ran",))


def written(path, **changes):
    """Write a file of small weights with some arrays changed; None: left out."""
    arrays = {**small_weights(weights_file.array_shapes(SIZES)), **changes}
    np.savez(path, **{name: x for name, x in arrays.items() if x is not None})
    return path


def test_layers_are_read(tmp_path):
    layers = weights_file.read(written(tmp_path / "w.npz"), SIZES)
    assert {name: layer.kernel.shape for name, layer in layers.items()} == layer_shapes(SIZES)
    known = small_weights(weights_file.array_shapes(SIZES))["lstm/sequential/conv1_d/w"]
    np.testing.assert_array_equal(layers["action_0"].kernel, known[0])


BAD = {
    "missing": ({"lstm/linear/w": None}, "has no array lstm/linear/w"),
    "another": ({"lstm/linear/ww": np.zeros(2)}, "unknown array in .*: did you mean 'lstm/linear/w'"),
    "shape": ({"lstm/linear/b": np.zeros(5, np.float32)}, r"lstm/linear/b of .* is float32\[5\]; it must be .*\[6\]"),
    "dtype": ({"lstm/linear/b": np.zeros(6)}, r"is float64\[6\]; it must be float32\[6\]"),
    "large": ({"lstm/linear/b": np.zeros(100_000)}, r"is float64\[100000\]; it must be float32\[6\]"),
    "nan": ({"lstm/linear/b": np.full(6, np.nan, np.float32)}, "not finite"),
    "pickle": ({"lstm/linear/b": np.array([Harmful()], object)}, r"is object\[1\]; it must be float32\[6\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_other_arrays_are_refused(case, tmp_path):
    changes, message = BAD[case]
    with pytest.raises(purerl.InputError, match=message):
        weights_file.read(written(tmp_path / "w.npz", **changes), SIZES)


def test_other_files_are_refused(tmp_path):
    np.save(tmp_path / "w.npy", np.zeros(3))
    (tmp_path / "w.pickle").write_bytes(pickle.dumps(Harmful()))
    whole = written(tmp_path / "w.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("w.npy", "w.pickle", "cut.npz"):
        with pytest.raises(purerl.InputError, match="is damaged"):
            weights_file.read(tmp_path / name, SIZES)
    with pytest.raises(purerl.InputError, match=r"cannot read .*: No such file"):
        weights_file.read(tmp_path / "none.npz", SIZES)


@pytest.mark.skipif(not WEIGHTS.exists(), reason="needs .cache/disco_103.npz")
def test_the_published_file_is_read():
    assert sum(layer.kernel.size + layer.bias.size for layer in weights_file.read(WEIGHTS).values()) == 754_778
