"""Checkpoints: what goes in comes out, a damaged file is told, and nothing in a file can run code."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import InputError
from purerl.prng import fast
from purerl.run import checkpoint


def tree():
    key = jax.random.key(3)
    return {
        "params": (jnp.linspace(0, 1, 12).reshape(3, 4), {"bias": jnp.array([jnp.nan, -0.0, jnp.inf])}),
        "key": key,
        "fast": jax.vmap(fast)(jax.random.split(key, 5)),
        "empty": jnp.zeros((0, 3)),
        "frames": jnp.arange(7, dtype=jnp.uint8),
        "flag": jnp.array(True),
        "half": jnp.ones(3, jnp.bfloat16),
        "nothing": None,
        "count": jnp.int32(5),
    }


def bits(leaf):
    raw = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return np.asarray(raw).tobytes()


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "checkpoints"
    for step in (5, 10):
        checkpoint.save(folder, step, tree(), {"wall_seconds": 1.5})
    return folder


def test_round_trip_to_the_bit(saved):
    template = jax.eval_shape(tree)
    found, notes = checkpoint.load(saved, 10, template)
    assert notes == {"wall_seconds": 1.5}
    assert jax.tree.structure(found) == jax.tree.structure(tree())
    for given, back in zip(jax.tree.leaves(tree()), jax.tree.leaves(found), strict=True):
        assert (given.shape, given.dtype, bits(given)) == (back.shape, back.dtype, bits(back))
    drawn = jax.random.normal(found["fast"][0], (3,))
    np.testing.assert_array_equal(drawn, jax.random.normal(tree()["fast"][0], (3,)))


def test_keeps_the_newest(tmp_path):
    for step in (1, 2, 30, 4):
        checkpoint.save(tmp_path, step, {"x": jnp.int32(step)}, {}, keep=2)
    assert checkpoint.steps(tmp_path) == [4, 30]
    (tmp_path / "000000099.orbax-checkpoint-tmp").mkdir()
    assert checkpoint.steps(tmp_path) == [4, 30]
    checkpoint.remove_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000004", "000000030"]


def test_a_cut_or_changed_file_is_told(saved):
    template = jax.eval_shape(tree)
    told = 0
    for file in sorted((saved / "000000010").rglob("*")):
        data = file.read_bytes() if file.is_file() else b""
        if len(data) < 8:
            continue
        for damaged in (data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 0xFF]), b""):
            file.write_bytes(damaged)
            try:
                found, _ = checkpoint.load(saved, 10, template)
            except InputError as error:
                told += 1
                assert re.search("damaged.*remove that folder to go on from update 5", str(error))
                assert "\n" not in str(error)
            else:  # a file that is not needed for the arrays: they must be right
                assert [bits(x) for x in jax.tree.leaves(found)] == [bits(x) for x in jax.tree.leaves(tree())]
        file.write_bytes(data)
    assert told >= 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"more": jnp.zeros(3)}, "has no 'more'"),
        ({"frames": jnp.zeros(3)}, r"'frames' is uint8\[7\] instead of float32\[3\]"),
        ({"count": jnp.uint32(5)}, "'count' is int32"),
    ],
)
def test_another_tree_is_refused(saved, change, message):
    with pytest.raises(InputError, match=f"does not fit.*{message}"):
        checkpoint.load(saved, 10, jax.eval_shape(lambda: tree() | change))


def test_files_hold_data_only(saved):
    """No file is a pickle or names code that loading would run: changed metadata cannot make it."""
    for file in saved.rglob("*"):
        if file.is_file():
            assert not file.read_bytes().startswith(b"\x80\x04"), f"{file} is a pickle"
    metadata = saved / "000000010" / "_CHECKPOINT_METADATA"
    content = json.loads(metadata.read_text())
    content["item_handlers"] = {"state": "os.system"}
    metadata.write_text(json.dumps(content))
    try:
        found, _ = checkpoint.load(saved, 10, jax.eval_shape(tree))
    except InputError:
        return
    assert bits(found["frames"]) == bits(tree()["frames"])
