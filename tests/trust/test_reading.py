"""Files that are not regular files, or larger than their kind: one line, at once."""

import os
import socket
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from purerl.errors import InputError
from purerl.reporting import metrics_csv, summary
from purerl.settings import agent_file, toml
from purerl.trust import reading

READERS = {
    "config.toml": lambda path: toml.read(path),
    "summary.json": summary.read,
    "metrics.csv": metrics_csv.read,
    "curves.npz": lambda path: reading.arrays(path, 1000).__enter__(),
    "one.safetensors": agent_file.arrays,
}


def pipe(path):
    os.mkfifo(path)


def link(path):
    path.symlink_to(path.parent / "private")


def folder(path):
    path.mkdir()


def plug(path):
    socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))


def endless(path):
    with path.open("wb") as file:
        file.truncate(2**40)


THINGS = {
    pipe: "not a regular file",
    link: "is a link",
    folder: "is a folder",
    plug: "not a regular",
    endless: "at most",
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", THINGS)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_of_its_kind(name, make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "private").write_text("a = 1")
    make(tmp_path / name)
    told = "cannot read|is not the file of an agent" if name == "one.safetensors" and make is link else THINGS[make]
    with pytest.raises(InputError, match=told):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"a = {'1' * 5000}", "not a TOML file"),
        ("a = 9223372036854775808", "more than 19 digits"),
        (f"{'a.' * 3000}a = 1", "nested more than 32 deep"),
        (f"a = {'[' * 100 + ']' * 100}", "nested more than 32 deep"),
        (f"a = {'[' * 3000 + ']' * 3000}", "not a TOML file"),
        ("a = '" + "x" * 2**20 + "'", "more than 1,048,576"),
        ("a = \x1b", "not a TOML file"),
    ],
)
def test_tables(text, told, tmp_path):
    with pytest.raises(InputError, match=told) as caught:
        reading.toml(text, "f")
    assert str(caught.value).isprintable()
    assert reading.toml(f"a = 9223372036854775807\n{'b.' * 20}c = inf", "f")["a"] == 2**63 - 1


def test_a_file_that_the_user_names_may_be_a_link(tmp_path):
    (tmp_path / "settings.toml").write_text("a = 1")
    (tmp_path / "link.toml").symlink_to("settings.toml")
    assert toml.read(toml.file_of(tmp_path / "link.toml")) == {"a": 1}
    (tmp_path / "config.toml").symlink_to("settings.toml")
    with pytest.raises(InputError, match="it is a link"):
        toml.read(toml.file_of(tmp_path))


def listed(path):
    """An archive whose list of files has 64 MB of holes."""
    size = 2**26
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, 0))
        file.write(struct.pack("<4sLQL", b"PK\6\7", 0, size, 1))
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 2**32 - 1, 2**32 - 1, 0))


def headed(path):
    """An array whose header has 64 MB of blanks, which are compressed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", b"\x93NUMPY\2\0" + struct.pack("<L", 2**26) + b" " * 2**26)


def nested(path):
    """An array whose header does not close its parentheses."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\2\0" + struct.pack("<L", 9000) + b"(" * 9000)


@pytest.mark.parametrize("write", [listed, headed, nested])
def test_what_stands_around_arrays_is_not_read_whole(write, tmp_path):
    write(tmp_path / "a.npz")
    tracemalloc.start()
    with pytest.raises(InputError, match="is damaged"), reading.arrays(tmp_path / "a.npz", 1000):
        pass
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**24


def test_arrays_are_as_large_as_they_may_be(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10**6), b=np.arange(3))
    with reading.arrays(tmp_path / "a.npz", 10**7) as (shapes, file):
        assert shapes["a"] == ((10**6,), np.float64) and file["b"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="'a' has more than 1,000 bytes"), reading.arrays(tmp_path / "a.npz", 1000):
        pass
