"""The weights of a meta-network from a file of NumPy arrays, as google-deepmind/disco_rl publishes them.

Reading one runs nothing: no pickle is loaded, and an array is read only if its name and size are the expected ones.
"""

import zipfile
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from purerl.errors import InputError, unknown
from purerl.networks.meta_network import Layer, MetaSizes, layer_shapes

ADDRESS = "https://raw.githubusercontent.com/google-deepmind/disco_rl/main/disco_rl/update_rules/weights/disco_103.npz"
_LIFETIME = "lstm/~/meta_lstm/~unroll"
NAMES = {  # layer of `layer_shapes` -> its name in the file
    "y_0": "lstm/mlp/~/linear_0",
    "y_1": "lstm/mlp/~/linear_1",
    "z_0": "lstm/mlp_1/~/linear_0",
    "z_1": "lstm/mlp_1/~/linear_1",
    "action_0": "lstm/sequential/conv1_d",
    "action_1": "lstm/sequential/conv1_d_1",
    "rollout": "lstm/lstm/linear",
    "scale": "lstm/linear",
    "summary": "lstm/linear_1",
    "y": "lstm/linear_2",
    "z": "lstm/linear_3",
    "policy_0": "lstm/sequential_1/conv1_d",
    "policy_1": "lstm/linear_4",
    "lifetime_y_0": f"{_LIFETIME}/mlp/~/linear_0",
    "lifetime_y_1": f"{_LIFETIME}/mlp/~/linear_1",
    "lifetime_z_0": f"{_LIFETIME}/mlp_1/~/linear_0",
    "lifetime_z_1": f"{_LIFETIME}/mlp_1/~/linear_1",
    "lifetime_action_0": f"{_LIFETIME}/sequential/conv1_d",
    "lifetime_action_1": f"{_LIFETIME}/sequential/conv1_d_1",
    "lifetime_input": f"{_LIFETIME}/mlp_2/~/linear_0",
    "lifetime": f"{_LIFETIME}/lstm/linear",
}
_HEADER = 4096  # bytes that an array's header may take


def array_shapes(sizes: MetaSizes = MetaSizes()) -> dict[str, tuple[int, ...]]:
    """Return {name in the file: shape}; the kernel of a convolution over actions has an axis more."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (inputs, outputs) in layer_shapes(sizes).items():
        name = NAMES[layer]
        shapes[f"{name}/w"] = (1, inputs, outputs) if "conv1_d" in name else (inputs, outputs)
        shapes[f"{name}/b"] = (outputs,)
    return shapes


def read(path: str | Path, sizes: MetaSizes = MetaSizes()) -> dict[str, Layer]:
    """Return the layers of a file.

    Raises:
      InputError: if there is no such file, or it holds anything but the expected arrays.
    """
    found = _arrays(path, array_shapes(sizes))
    kernel = lambda layer, shape: jnp.asarray(found[f"{NAMES[layer]}/w"].reshape(shape))
    return {
        layer: Layer(kernel(layer, shape), jnp.asarray(found[f"{NAMES[layer]}/b"]))
        for layer, shape in layer_shapes(sizes).items()
    }


def _arrays(path: str | Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    if Path(path).exists() and not Path(path).is_file():
        raise InputError(f"cannot read weights {path}: it is not a regular file")
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename.removesuffix(".npy"): info.file_size for info in archive.infolist()}
        _check_names(path, sizes, shapes)
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in shapes}
    except OSError as error:
        raise InputError(f"cannot read weights {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
        why = str(error).partition("\n")[0][:200]
        raise InputError(f"{path} is not a file of weights such as disco_103.npz: {why}") from None
    for name, shape in shapes.items():
        _check(f"{name} of {path}", found[name], shape)
    return found


def _check_names(path: str | Path, sizes: dict[str, int], shapes: dict[str, tuple[int, ...]]) -> None:
    for name in sizes:
        if name not in shapes:
            raise unknown(f"array in {path}", name, shapes)
    for name, shape in shapes.items():
        if name not in sizes:
            raise InputError(f"{path} has no array {name}; it must hold the {len(shapes)} arrays of disco_103.npz")
        if sizes[name] > 8 * int(np.prod(shape)) + _HEADER:
            raise InputError(f"{name} of {path} takes {sizes[name]:,} bytes; it must be float32{list(shape)}")


def _check(what: str, array: Any, shape: tuple[int, ...]) -> None:
    if array.shape != shape or array.dtype != np.float32:
        raise InputError(f"{what} is {array.dtype}{list(array.shape)}; it must be float32{list(shape)}")
    if not np.isfinite(array).all():
        raise InputError(f"{what} holds a number that is not finite")
