"""Files that are complete or absent, and tables."""

import os
import types
from pathlib import Path

import pytest

from purerl.errors import InputError
from purerl.reporting import files
from purerl.reporting.files import PART, append, csv_text, own_folder, remove_parts, short_names, write_whole


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, "one")

    def fail(file):
        file.write(b"tw")
        raise OSError

    with pytest.raises(OSError):
        write_whole(path, fail)
    assert path.read_text() == "one"
    write_whole(path, lambda file: file.write(b"two"))
    assert path.read_text() == "two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_links_are_replaced_and_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("precious")
    for target in (other, tmp_path / "nowhere"):
        path = tmp_path / f"link-to-{target.name}"
        path.symlink_to(target)
        with pytest.raises(InputError, match="not a regular file"):
            append(path)
        write_whole(path, "new")
        assert path.read_text() == "new" and not path.is_symlink()
    assert other.read_text() == "precious" and not (tmp_path / "nowhere").exists()


def test_the_name_of_an_incomplete_file_cannot_be_guessed(tmp_path):
    """No link at a name that was used before is met, and nothing outside is written."""
    names = []

    def look(file):
        (part,) = tmp_path.iterdir()
        names.append(part.name)

    for _ in range(2):
        write_whole(tmp_path / "a.csv", look)
        (tmp_path / "a.csv").unlink()
    assert names[0] != names[1] and all(PART.fullmatch(name) for name in names)


@pytest.mark.parametrize("name", ["folder", "/dev/null"])
def test_folders_and_devices_stay(name, tmp_path):
    path = tmp_path / name
    if not path.exists():
        path.mkdir()
    for write in (append, lambda path: write_whole(path, "new")):
        with pytest.raises(InputError, match="not a regular file"):
            write(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(InputError, match="not a regular file"):
        write_whole(link, "new")
    assert link.is_symlink() and not path.is_file()


def test_a_folder_of_its_own(tmp_path):
    with pytest.raises(FileNotFoundError):  # a run's folder that was removed is not made again
        own_folder(tmp_path / "a" / "b")
    assert own_folder(tmp_path / "a").is_dir() and own_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match="is a link"):
        own_folder(tmp_path / "link")


def test_what_a_killed_process_left_is_removed(tmp_path):
    for name in (".a.csv.0123456789abcdef.part", ".a.csv.part", "a.csv.0123456789abcdef.part"):
        (tmp_path / name).write_text("")
    (tmp_path / ".b.0123456789abcdef.part").symlink_to(tmp_path / ".a.csv.part")
    remove_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".a.csv.part", ".b.0123456789abcdef.part", "a.csv.0123456789abcdef.part",
    ]  # fmt: skip


def test_a_table():
    assert csv_text([{"a": 1, "b": True}, {"a": (2, 3), "b": None}]) == 'a,b\n1,true\n"2,3",none\n'
    assert csv_text([], "trial") == "trial\n"


@pytest.mark.long
def test_folders_of_one_name_go_by_their_paths():
    assert short_names([Path("a/run"), Path("b/other")]) == ["run", "other"]
    assert short_names([Path("a/run"), Path("b/run"), Path("c")]) == ["a/run", "b/run", "c"]


def test_files_are_opened_byte_for_byte():
    """Windows alone has O_BINARY, without which the bytes of a picture that are line ends become two."""
    assert files.flags_of(types.SimpleNamespace(O_BINARY=0x8000)) == 0x8000
    assert files.flags_of(os) & os.O_NOFOLLOW and files.flags_of(os) == files.AS_IT_IS
