"""The weights of a meta-network from a file of NumPy arrays, as google-deepmind/disco_rl publishes them.

An array is read only if its name, its shape and its dtype are the expected ones.
"""

from pathlib import Path

import jax.numpy as jnp

from purerl.networks.meta_network import Layer, MetaSizes, layer_shapes
from purerl.trust import reading

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


def array_shapes(sizes: MetaSizes = MetaSizes()) -> dict[str, tuple[int, ...]]:
    """Return {name in the file: shape}; the kernel of a convolution over actions has an extra axis."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (inputs, outputs) in layer_shapes(sizes).items():
        name = NAMES[layer]
        shapes[f"{name}/w"] = (1, inputs, outputs) if "conv1_d" in name else (inputs, outputs)
        shapes[f"{name}/b"] = (outputs,)
    return shapes


def read(path: str | Path, sizes: MetaSizes = MetaSizes()) -> dict[str, Layer]:
    """Return the layers in a file.

    Raises:
      InputError: if there is no such file, or it holds anything but the expected arrays.
    """
    shapes = array_shapes(sizes)
    with reading.arrays(Path(path), reading.TABLE, follow=True) as (there, file):
        reading.check_shapes(path, there, shapes)
        found = {name: file[name] for name in shapes}
    reading.check_finite(path, found)
    kernel = lambda layer, shape: jnp.asarray(found[f"{NAMES[layer]}/w"].reshape(shape))
    return {
        layer: Layer(kernel(layer, shape), jnp.asarray(found[f"{NAMES[layer]}/b"]))
        for layer, shape in layer_shapes(sizes).items()
    }
