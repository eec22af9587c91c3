"""Act with a policy that `purerl export` wrote, without purerl: python use_policy.py policy.onnx|policy.stablehlo 4.

The last arguments are the shape of one observation. For a recurrent policy, pass the returned carry to the next call.
"""

import importlib
import sys

import numpy as np


def load(path):
    """Return a function: arrays [N, ...] -> actions [N, ...]."""
    if path.endswith(".onnx"):
        onnxruntime = importlib.import_module("onnxruntime")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        return lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True)))[0]
    from jax import export

    with open(path, "rb") as file:
        policy = export.deserialize(bytearray(file.read()))
    return lambda *arrays: policy.call(*(x.astype(of.dtype) for x, of in zip(arrays, policy.in_avals, strict=True)))


if __name__ == "__main__":
    observations = np.random.default_rng(0).normal(size=(3, *map(int, sys.argv[2:]))).astype(np.float32)
    print(np.asarray(load(sys.argv[1])(observations)))
