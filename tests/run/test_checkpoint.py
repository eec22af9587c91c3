"""Checkpoints: what goes in comes out, a damaged file is reported, and nothing in a file can run code."""

import gc
import json
import os
import re
import signal
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import InputError
from purerl.devices import distributed, memory
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


@pytest.mark.long
def test_round_trip_to_the_bit(saved):
    template = jax.eval_shape(tree)
    found, notes = checkpoint.load(saved, 10, template)
    assert notes == {"wall_seconds": 1.5}
    assert jax.tree.structure(found) == jax.tree.structure(tree())
    for given, back in zip(jax.tree.leaves(tree()), jax.tree.leaves(found), strict=True):
        assert (given.shape, given.dtype, bits(given)) == (back.shape, back.dtype, bits(back))
    drawn = jax.random.normal(found["fast"][0], (3,))
    np.testing.assert_array_equal(drawn, jax.random.normal(tree()["fast"][0], (3,)))


def test_an_array_that_came_later_is_filled(saved):
    """A checkpoint of an earlier version is whole without it."""
    template = jax.eval_shape(lambda: {**tree(), "counts": jnp.zeros(3)})
    with pytest.raises(InputError, match="has no 'counts'"):
        checkpoint.load(saved, 10, template)
    found, _ = checkpoint.load(saved, 10, template, added={"counts": "count"})
    np.testing.assert_array_equal(found["counts"], np.full(3, 5.0, np.float32))


def test_keeps_the_newest(tmp_path):
    for step in (1, 2, 30, 4):
        checkpoint.save(tmp_path, step, {"x": jnp.int32(step)}, {}, keep=2)
    assert checkpoint.steps(tmp_path) == [4, 30]
    (tmp_path / "000000099.orbax-checkpoint-tmp").mkdir()
    assert checkpoint.steps(tmp_path) == [4, 30]
    checkpoint.remove_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000004", "000000030"]


def test_the_latest_is_the_newest(tmp_path):
    for step in (5, 10):
        (tmp_path / f"{step:09d}").mkdir()
    assert checkpoint.find(tmp_path, "latest") == (tmp_path, 10)


def test_what_is_written_is_kept_whatever_its_step(tmp_path):
    """As where a run was killed after a later one, and its second life went another way."""
    for step in (20, 10):
        checkpoint.save(tmp_path, step, {"x": jnp.int32(step)}, {}, keep=1)
    assert checkpoint.steps(tmp_path) == [10]
    for step in (30, 40, 20):
        checkpoint.save(tmp_path, step, {"x": jnp.int32(step)}, {}, keep=5)
    assert checkpoint.steps(tmp_path) == [10, 20, 30, 40]


@pytest.mark.long
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


def test_only_numbered_folders_count_and_others_stay(tmp_path):
    """What else lies there neither stops a save nor is removed."""
    other = tmp_path / "other"
    (other / "precious").mkdir(parents=True)
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for name in ("5", "²", "00000000007", "notes", "important.orbax-checkpoint-tmp-not"):
        (folder / name / "inside").mkdir(parents=True)
    (folder / "000000001").symlink_to(other)
    (folder / "000000003").write_text("a file")
    (folder / "000000004.orbax-checkpoint-tmp").symlink_to(other)
    before = {path.name for path in folder.iterdir()}
    for step in (1, 2, 3, 4):
        checkpoint.save(folder, step, {"x": jnp.int32(step)}, {}, keep=2)
        checkpoint.remove_unfinished(folder)
    assert checkpoint.steps(folder) == [3, 4]
    left = {path.name for path in folder.iterdir()}
    assert left == (before - {"000000001", "000000004.orbax-checkpoint-tmp"}) | {"000000003", "000000004"}
    assert (other / "precious").is_dir()
    assert int(checkpoint.load(folder, 3, {"x": jax.ShapeDtypeStruct((), jnp.int32)})[0]["x"]) == 3


def test_a_folder_that_is_a_link_is_refused(saved, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(saved)
    (saved / "000000099.orbax-checkpoint-tmp").mkdir()
    for use in (
        lambda: checkpoint.steps(link),
        lambda: checkpoint.newest(link),
        lambda: checkpoint.save(link, 11, tree(), {}, keep=1),
        lambda: checkpoint.load(link, 10, jax.eval_shape(tree)),
    ):
        with pytest.raises(InputError, match="is a link"):
            use()
    checkpoint.remove_unfinished(link)
    assert len(list(saved.iterdir())) == 3


def test_a_large_array_is_refused_before_it_is_read(tmp_path, monkeypatch):
    """By its shape where another is expected, and by the memory there is where it is the expected one."""
    from orbax.checkpoint import v1 as ocp

    large = {"x": jnp.zeros(1_000_000), "y": jnp.int32(0)}
    checkpoint.save(tmp_path, 1, large, {})
    monkeypatch.setattr(ocp, "load", lambda *_: pytest.fail("it was read"))
    with pytest.raises(InputError, match=r"'x' is float32\[1000000\] instead of float32\[3\]"):
        checkpoint.load(tmp_path, 1, jax.eval_shape(lambda: large | {"x": jnp.zeros(3)}))
    with pytest.raises(InputError, match="has 'x' as well"):
        checkpoint.load(tmp_path, 1, jax.eval_shape(lambda: {"y": jnp.int32(0)}))
    monkeypatch.setattr(memory, "host_free", lambda: 1_000_000)
    with pytest.raises(InputError, match=r"takes 0\.004 GB, and 0\.001 GB are free"):
        checkpoint.load(tmp_path, 1, jax.eval_shape(lambda: large))


def test_an_endless_index_is_refused_before_it_is_read(tmp_path):
    """TensorStore reads it whole, and aborts the process where the memory does not hold it."""
    where = checkpoint.save(tmp_path, 1, tree(), {})
    for file in where.rglob("manifest.ocdbt"):
        os.truncate(file, 2**41)
    for read in (checkpoint.read_metadata, lambda *_: checkpoint.load(tmp_path, 1, jax.eval_shape(tree))):
        with pytest.raises(InputError, match=r"manifest.ocdbt: it has .* bytes; at most"):
            read(tmp_path, 1)


def rewritten(path, change):
    """Change the metadata of a checkpoint's folder."""
    file = path / "_CHECKPOINT_METADATA"
    content = json.loads(file.read_text())
    change(content["custom_metadata"])
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        lambda notes: notes.pop("checksum"),
        lambda notes: notes.pop("notes"),
        lambda notes: notes.clear(),
        lambda notes: notes.update(wall_seconds=2.5),
        lambda notes: notes.update(step=11),
        lambda notes: notes.update(checksum={}),
        lambda notes: notes.update(checksum=7),
        lambda notes: notes["checksum"].update(frames=[]),
        lambda notes: notes["checksum"].update(frames=[[[0], [7]]]),
        lambda notes: notes["checksum"].update(frames=[["0", "7", "x"]]),
    ],
)
def test_what_a_checkpoint_says_of_itself_is_required(saved, change):
    rewritten(saved / "000000010", change)
    with pytest.raises(InputError, match=r"damaged.*remove that folder to go on from update 5"):
        checkpoint.load(saved, 10, jax.eval_shape(tree))


def test_a_renamed_checkpoint_is_told(saved):
    (saved / "000000010").rename(saved / "000000013")
    with pytest.raises(InputError, match="is that of update 10: name its folder 000000010, or remove that folder"):
        checkpoint.load(saved, 13, jax.eval_shape(tree))


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


@pytest.fixture
def interruptible():
    """Ctrl-C raises, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_it_is_read_is_no_damage(tmp_path, interruptible):
    """Orbax keeps an interrupt for itself, and returns half of what there is."""
    tree = {"a": np.arange(5.0)}
    checkpoint.save(tmp_path, 1, tree, {})
    began = time.perf_counter()
    checkpoint.load(tmp_path, 1, tree)
    seconds, came = time.perf_counter() - began, 0
    for i in range(20):
        alarm = threading.Timer(seconds * i / 20, os.kill, (os.getpid(), signal.SIGINT))
        try:
            alarm.start()
            checkpoint.load(tmp_path, 1, tree)
            alarm.join()
            time.sleep(0.05)
        except KeyboardInterrupt:
            came += 1
    assert came == 20


@pytest.mark.long
def test_another_process_lost_in_a_save_is_no_fault_of_the_disk(tmp_path, monkeypatch):
    """Its words are those of the operating system too."""
    from orbax.checkpoint import v1 as ocp

    def fail(*_, **__):
        raise RuntimeError("UNAVAILABLE: Gloo AllReduce failed: Read error: Connection reset by peer")

    monkeypatch.setattr(ocp, "save", fail)
    with pytest.raises(checkpoint.SaveError, match="Connection reset by peer"):
        checkpoint.save(tmp_path, 1, {"a": jnp.ones(2)}, {})
    monkeypatch.setattr(distributed, "is_loss", lambda error: "Gloo" in str(error))
    with pytest.raises(RuntimeError, match="Gloo AllReduce failed"):
        checkpoint.save(tmp_path, 1, {"a": jnp.ones(2)}, {})


@pytest.mark.parametrize("words", ["timed out after 172800.08 seconds.", "fsync: Interrupted system call"])
def test_a_save_is_tried_again_after_what_passes(tmp_path, monkeypatch, words):
    """A clock that jumped, and a call that a signal interrupted; the second time in a row it is a failure."""
    from orbax.checkpoint import v1 as ocp

    save, error = ocp.save, TimeoutError(words) if "timed" in words else ValueError(words)
    errors = [error]

    def failing(*given, **named):
        if errors:
            raise errors.pop()
        save(*given, **named)

    monkeypatch.setattr(ocp, "save", failing)
    checkpoint.save(tmp_path, 1, {"a": jnp.ones(2)}, {})
    assert checkpoint.steps(tmp_path) == [1]
    errors += [error, error]
    with pytest.raises(checkpoint.SaveError, match=words.partition(": ")[2] or "timed out"):
        checkpoint.save(tmp_path, 2, {"a": jnp.ones(2)}, {})


@pytest.mark.long
def test_saves_do_not_fill_the_memory(tmp_path):
    """TensorStore leaked four strings per array and save; the few objects that saves leave behind are unrelated."""
    arrays, began = 100, 0
    tree = {f"layer {i}": np.zeros(2, np.float32) for i in range(arrays)}
    for step in range(1, 10):
        checkpoint.save(tmp_path, step, tree, {}, keep=2)
        if step == 4:
            gc.collect()
            began = sys.getallocatedblocks()
    gc.collect()
    assert sys.getallocatedblocks() - began < 5 * 2 * arrays
