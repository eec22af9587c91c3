"""Files of agents: written and read back; damaged or crafted ones are refused before anything large is made."""

import json

import numpy as np
import pytest

from purerl import zoo
from purerl.errors import InputError
from purerl.settings import agent_file, toml

ARRAYS = {
    "params/w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "params/b": np.float32(2.5).reshape(()),
    "statistics/count": np.array([7], np.int32),
    "empty": np.zeros((0, 4), np.float32),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "one.safetensors"
    path.write_bytes(agent_file.pack(ARRAYS, {"settings": 'algorithm = "ppo"', "update": "3"}))
    return path


def test_what_is_written_is_read(file):
    found = agent_file.arrays(file)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert agent_file.about(file)["update"] == "3"
    assert toml.read(file) == {"algorithm": "ppo"}


def test_the_bytes_are_the_format_s(file):
    """u64, the length of the header | the header, JSON | the numbers."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    assert header.pop("__metadata__") == {"settings": 'algorithm = "ppo"', "update": "3"}
    for name, array in ARRAYS.items():
        begin, end = header[name]["data_offsets"]
        assert header[name]["shape"] == list(array.shape) and data[begin:end] == array.tobytes()


def written(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"[" * 100_000,
        [1],
        {"x": ONE | {"shape": [2**62]}},
        {"x": ONE | {"shape": [2**62, 4]}},
        {"x": ONE | {"shape": [-2], "data_offsets": [8, 0]}},
        {"x": ONE | {"data_offsets": [0, 80]}},
        {"x": ONE | {"data_offsets": [4, 12], "shape": [2]}},
        {"x": ONE | {"shape": [2.0]}},
        {"x": ONE | {"dtype": "O"}},
        {"x": 3},
        {"x": ONE | {"data_offsets": [0]}},
    ],
)
def test_crafted_headers(header, tmp_path):
    path = written(tmp_path / "x.safetensors", header, bytes(8))
    with pytest.raises(InputError, match="is not the file of an agent: ") as told:
        agent_file.arrays(path)
    assert "\n" not in str(told.value) and len(str(told.value)) < 400


def test_cut_files(file):
    whole = file.read_bytes()
    for size in (0, 4, 8, 100, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(InputError, match="is not the file of an agent"):
            agent_file.arrays(file)
    written(file, {}, length=2**63)
    with pytest.raises(InputError, match="is not the file of an agent"):
        agent_file.about(file)


@pytest.mark.parametrize("path", ["nowhere.safetensors", "."])
def test_what_cannot_be_read(path, tmp_path):
    with pytest.raises(InputError, match="cannot read "):
        agent_file.about(tmp_path / path)


def test_metadata_are_texts(tmp_path):
    path = written(tmp_path / "x.safetensors", {"__metadata__": {"settings": 3}})
    with pytest.raises(InputError, match="is not the file of an agent"):
        agent_file.settings_text(path)
    with pytest.raises(InputError, match="numbers without settings"):
        agent_file.settings_text(written(path, {"__metadata__": {}}))


def test_names(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "CLONE", tmp_path)
    (tmp_path / "ppo-Catch.safetensors").write_bytes(b"")
    of = agent_file.Path
    assert agent_file.find(of("zoo/ppo-Catch")) == tmp_path / "ppo-Catch.safetensors"
    assert agent_file.find(of("a/b.safetensors")) == of("a/b.safetensors")
    assert agent_file.find(of("runs/ppo-Catch-1")) is None and agent_file.find(tmp_path) is None
    with pytest.raises(InputError, match="unknown agent of the zoo 'ppo-CartPol': did you mean 'ppo-CartPole-v1'"):
        agent_file.find(of("zoo/ppo-CartPol"))


@pytest.mark.long
def test_the_same_contents_are_the_same_bytes():
    about = {f"text {i}": str(i) for i in range(20)}
    content = agent_file.pack(ARRAYS, about)
    assert all(agent_file.pack(ARRAYS, dict(reversed(about.items()))) == content for _ in range(10))
    assert int.from_bytes(content[:8], "little") % 8 == 0
