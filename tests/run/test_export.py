"""Policies as files: the actions of the policy itself, for any number of observations, read without purerl."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import purerl
from purerl.errors import InputError
from purerl.run import export

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "use_policy.py"
SMALL = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (8,), "total_timesteps": 40, "eval_episodes": 4}
KINDS = {
    "discrete": ("a2c", "CartPole-v1", {}),
    "continuous": ("a2c", "Pendulum-v1", {"normalize_observation": True}),
    "images": ("a2c", "Breakout-MinAtar", {"network": "minatar"}),
    "recurrent": ("a2c", "RepeatPrevious", {"rnn": "gru", "rnn_size": 8}),
    "recurrent values": (
        "r2d2",
        "RepeatPrevious",
        {
            "sequence_length": 4,
            "burn_in": 0,
            "learning_starts": 16,
            "batch_size": 2,
            "replay_capacity": 64,
            "rnn_size": 8,
        },
    ),
    "values": ("c51", "CartPole-v1", {"learning_starts": 16, "batch_size": 8, "replay_capacity": 64}),
}


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory):
    algorithm, environment, more = KINDS[request.param]
    folder = tmp_path_factory.mktemp("runs") / request.param
    return purerl.train(algorithm, environment, out=folder, display="none", evaluations=0, **SMALL, **more)


def arrays(one, num):
    draw = np.random.default_rng(num)
    return [draw.normal(size=(num, *x.shape)).astype(x.dtype) for x in one]


def outputs(run, given):
    function, _ = export.acting(run, run.policy().agent)
    return [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*given))]


def test_nothing_random_is_exported(trained):
    """A converter may know no random numbers."""
    function, one = export.acting(trained, trained.policy().agent)
    text = str(jax.make_jaxpr(function)(*arrays(one, 2)))
    assert "random_split" not in text and "random_bits" not in text


def test_stablehlo_gives_the_same_bits(trained, tmp_path):
    pytest.importorskip("flatbuffers")
    path = tmp_path / "policy.stablehlo"
    export.save(trained, path)
    exported = jax.export.deserialize(bytearray(path.read_bytes()))
    _, one = export.acting(trained, trained.policy().agent)
    for num in (1, 7):
        given = arrays(one, num)
        for found, wanted in zip(jax.tree.leaves(exported.call(*given)), outputs(trained, given), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_onnx_gives_the_same_numbers(trained, tmp_path, caplog):
    pytest.importorskip("jax2onnx")
    runtime = pytest.importorskip("onnxruntime")
    path = tmp_path / "policy.onnx"
    export.save(trained, path)
    assert not caplog.records, "the converter speaks of parts that are not used"
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    _, one = export.acting(trained, trained.policy().agent)
    for num in (1, 7):
        given = arrays(one, num)
        found = session.run(None, {x.name: array for x, array in zip(session.get_inputs(), given, strict=True)})
        for x, wanted in zip(found, outputs(trained, given), strict=True):
            np.testing.assert_allclose(x, wanted, atol=1e-5, rtol=1e-5)


def test_safetensors_holds_the_parameters(trained, tmp_path):
    """The header read by hand; the numbers are those of the agent, and nothing of the optimizer is there."""
    path = tmp_path / "policy.safetensors"
    export.save(trained, path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    about = header.pop("__metadata__")
    assert about["update"] == str(int(trained.state.num_updates))
    assert f'algorithm = "{trained.settings.algorithm}"' in about["settings"]
    agent = trained.policy().agent
    wanted = {jax.tree_util.keystr(p, simple=True, separator="/"): x for p, x in jax.tree.leaves_with_path(agent)}
    assert header and all(
        name.startswith(("params", "target_params", "observation_statistics", "return_scale")) for name in header
    )
    assert {name for name in wanted if name.startswith("params")} <= set(header)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] in ("F32", "I32")
        kind = np.float32 if entry["dtype"] == "F32" else np.int32
        found = np.frombuffer(data[8 + size + begin : 8 + size + end], kind).reshape(entry["shape"])
        np.testing.assert_array_equal(found, wanted[name])


@pytest.mark.parametrize("suffix", [".stablehlo", ".onnx"])
def test_the_script_needs_no_purerl(trained, tmp_path, suffix):
    """It prints the actions of two steps; the second starts from the carry of the first."""
    for package in ("flatbuffers",) if suffix == ".stablehlo" else ("jax2onnx", "onnxruntime"):
        pytest.importorskip(package)
    path = tmp_path / f"policy{suffix}"
    export.save(trained, path)
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), str(path)], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    _, one = export.acting(trained, trained.policy().agent)
    carries = len(jax.tree.leaves(trained.trainer.algorithm.initial_carry(1)))
    parts, rng, wanted = len(one) - carries, np.random.default_rng(0), ""
    given = [rng.normal(size=(3, *x.shape)).astype(x.dtype) for x in one[:parts]]
    carry = [np.zeros((3, *x.shape), x.dtype) for x in one[parts:]]
    for _ in range(2):
        actions, *carry = outputs(trained, [*given, *carry])
        wanted += f"{actions}\n"
    found, expected = (
        [float(x) for x in text.replace("[", " ").replace("]", " ").split()] for text in (done.stdout, wanted)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert len(SCRIPT.read_text().split('"""')[2].strip().splitlines()) <= 36 and "purerl" not in "".join(
        line for line in SCRIPT.read_text().splitlines() if "import" in line
    )


def test_what_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"ends in '.pt'; an exported policy must end in .stablehlo, .onnx"):
        export.check(tmp_path / "policy.pt")
    with pytest.raises(InputError, match="there is no folder"):
        export.check(tmp_path / "no" / "policy.onnx")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'purerl\[export\]'"):
        export.check(tmp_path / "policy.onnx")
    export.check(tmp_path / "policy.safetensors")
