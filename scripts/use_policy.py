"""Act with a policy that `purerl export` wrote, without purerl: python use_policy.py policy.onnx|policy.stablehlo.

A recurrent policy also takes and returns its carry, which starts as zeros.
"""

import importlib
import sys

import numpy as np

NUMPY = {"float": "float32", "double": "float64"}  # ONNX's names of dtypes, where they differ


def load(path):
    """Return (function from arrays [N, ...] to [actions, *carry], (shape, dtype) of each input, number of carries)."""
    if path.endswith(".onnx"):
        onnxruntime = importlib.import_module("onnxruntime")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        inputs = session.get_inputs()
        kinds = [(one.shape[1:], one.type[len("tensor(") : -1]) for one in inputs]
        call = lambda *arrays: session.run(None, {one.name: x for one, x in zip(inputs, arrays, strict=True)})
        return call, [(shape, NUMPY.get(kind, kind)) for shape, kind in kinds], len(session.get_outputs()) - 1
    from jax import export, tree

    with open(path, "rb") as file:
        policy = export.deserialize(bytearray(file.read()))
    call = lambda *arrays: tree.leaves(policy.call(*arrays))
    return call, [(x.shape[1:], x.dtype) for x in policy.in_avals], len(policy.out_avals) - 1


if __name__ == "__main__":
    policy, inputs, size = load(sys.argv[1])
    parts = len(inputs) - size
    rng = np.random.default_rng(0)
    observation = [rng.normal(size=(3, *shape)).astype(dtype) for shape, dtype in inputs[:parts]]
    carry = [np.zeros((3, *shape), dtype) for shape, dtype in inputs[parts:]]
    for _ in range(2):  # an environment would be stepped after each of them
        actions, *carry = policy(*observation, *carry)
        print(np.asarray(actions))
