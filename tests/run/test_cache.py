"""The folder of compiled programs: where it is, and that it stays small."""

import os
from pathlib import Path

import jax
import pytest

from purerl.run import cache


def test_where_it_is(monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.folder() == Path.home() / ".cache" / "purerl" / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.folder() == Path("/somewhere/purerl/compiled")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/elsewhere")
    assert cache.folder() == Path("/elsewhere")


def test_what_was_written_longest_ago_goes_first(tmp_path):
    for age, size in enumerate((40, 30, 20, 10)):  # the newest first
        file = tmp_path / f"{age}"
        file.write_bytes(b"x" * size)
        os.utime(file, (1000 - age, 1000 - age))
    (tmp_path / "folder").mkdir()
    cache.trim(tmp_path, 90)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "folder"]
    cache.trim(tmp_path, 89)
    assert not (tmp_path / "2").exists() and (tmp_path / "1").exists()


def test_a_folder_that_the_user_names_keeps_what_others_put_there(monkeypatch, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache.trim, "__defaults__", (0,))
    (tmp_path / "jit_other-cache").write_bytes(b"x")
    try:
        cache.enable()
        assert (tmp_path / "jit_other-cache").exists()
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "file" / "inside"))
    cache.enable()
    assert jax.config.jax_compilation_cache_dir == before


@pytest.mark.long
def test_no_home_and_no_name_is_no_error(monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    before = jax.config.jax_compilation_cache_dir
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", fail)
    cache.enable()
    assert jax.config.jax_compilation_cache_dir == before
