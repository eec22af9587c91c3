"""Folders of long jobs: numbered, compared, locked."""

import pytest

from purerl.errors import InputError
from purerl.run import folders
from purerl.settings.toml import RUN, SWEEP


def new(out, *words):
    return folders.new_folder(out, *words, files={"config.toml": "a = 1\n"})


def test_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [str(new(None, "ppo", "gymnax/Thing:1")) for _ in range(3)]
    assert names == [f"runs/ppo-gymnax-Thing-1-{n}" for n in (1, 2, 3)]
    assert (new(tmp_path / "mine" / "run", "ppo") / "config.toml").read_text() == "a = 1\n"
    with pytest.raises(InputError, match=r"mine.run exists; name another --out, or go on there with --resume"):
        new(tmp_path / "mine" / "run", "ppo")


def test_a_folder_appears_with_its_settings_or_not_at_all(tmp_path, monkeypatch):
    """Killed in between, a folder without settings could neither be begun nor resumed."""

    def killed(path, text):
        assert not (tmp_path / "run").exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(folders, "write_whole", killed)
        new(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert new(tmp_path / "run").is_dir() and len(list(tmp_path.iterdir())) == 1


def test_places_where_no_folder_can_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(InputError, match=rf"{name} exists and is not a folder; choose another --out$"):
            new(tmp_path / name)
    for name in ("file/run", "x" * 300, "file/a/b"):
        with pytest.raises(InputError, match="cannot write"):
            new(tmp_path / name)
    for name in ("a\0b", "a\ud800b"):
        with pytest.raises(InputError, match="is not a path"):
            folders.enter_folder(RUN, tmp_path / name, (), "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    (tmp_path / "runs").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cannot write runs"):
        new(None, "ppo")


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
    folders.check_same(file, "version = '9'\na = 1\nb = 2\ndevices = 8\n", "sweep")
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


@pytest.mark.long
def test_a_setting_that_one_text_leaves_out_has_its_default(tmp_path):
    """As in a folder of an earlier version, whose files name all options of extensions."""
    file, absent = tmp_path / "config.toml", {"sampler": "auto", "extension": ()}
    never = lambda name: False
    before, now = 'seed = 0\nsampler = "auto"\n', "seed = 0\nextension = []\n"
    assert folders.changes(file, before, now, never, absent) == ""
    with pytest.raises(InputError, match="sampler is auto, and the checkpoint was made with serial"):
        folders.changes(file, 'seed = 0\nsampler = "serial"\n', now, never, absent)
    with pytest.raises(InputError, match="sampler is not there, and the checkpoint was made with auto"):
        folders.changes(file, before, "seed = 0\n", never)
