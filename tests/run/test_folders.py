"""Folders of long jobs: numbered, compared, locked."""

import pytest

from purerl.errors import InputError
from purerl.run import folders
from purerl.settings.toml import RUN, SWEEP


def test_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [str(folders.new_folder(None, "ppo", "gymnax/Thing:1")) for _ in range(3)]
    assert names == [f"runs/ppo-gymnax-Thing-1-{n}" for n in (1, 2, 3)]
    assert folders.new_folder(tmp_path / "mine" / "run", "ppo").is_dir()
    with pytest.raises(InputError, match=r"mine.run exists; name another --out, or go on there with --resume"):
        folders.new_folder(tmp_path / "mine" / "run", "ppo")


def test_a_folder_has_one_writer(tmp_path):
    (tmp_path / "config.toml").write_text("")
    held = folders.lock(tmp_path, RUN)
    with pytest.raises(InputError, match="is in use: another process is training there"):
        folders.lock(tmp_path, RUN)
    held.close()
    folders.lock(tmp_path, RUN).close()


def test_a_folder_is_held_to_what_it_is_to_say(tmp_path):
    file = tmp_path / "sweep.toml"
    with pytest.raises(InputError, match=r"there is no sweep in .*: it has no sweep\.toml"):
        folders.check_same(file, "a = 1\n", "sweep")
    file.write_text("a = 1\ndevices = 2\nb = 2\n")
    folders.check_same(file, "a = 1\nb = 2\ndevices = 8\n", "sweep")
    with pytest.raises(InputError, match="holds another sweep: it has 'b = 2' where this one has 'b = 3'"):
        folders.check_same(file, "a = 1\nb = 3\n", "sweep")
    with pytest.raises(InputError, match="holds another sweep"):
        folders.check_same(file, "a = 1\nb = 2\nc = 3\n", "sweep")


def test_a_folder_is_entered_anew_or_again(tmp_path):
    out = tmp_path / "sweep"
    assert folders.enter_folder(SWEEP, out, (), "a = 1\n", resume=True) == (out, False)
    assert (out / "sweep.toml").read_text() == "a = 1\n"
    assert folders.enter_folder(SWEEP, out, (), "a = 1\n", resume=True) == (out, True)
    with pytest.raises(InputError, match="holds another sweep"):
        folders.enter_folder(SWEEP, out, (), "a = 2\n", resume=True)
    with pytest.raises(InputError, match="exists; name another --out"):
        folders.enter_folder(SWEEP, out, (), "a = 1\n")
