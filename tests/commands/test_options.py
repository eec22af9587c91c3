"""What commands share: lists of names, and checks of what is to be read and written."""

from pathlib import Path

import pytest

from purerl.commands.options import check_file, check_out, check_runs, names_of
from purerl.errors import InputError


def test_names_are_separated_by_commas():
    assert names_of("a, b,,c") == ["a", "b", "c"] and names_of(None) == names_of("") == []
    with pytest.raises(InputError, match="names a twice"):
        names_of("a,b,a")


def test_what_is_not_there_is_refused(tmp_path):
    check_runs([tmp_path])
    with pytest.raises(InputError, match=r"there is no run in .*gone: no such folder"):
        check_runs([tmp_path, tmp_path / "gone"])
    check_file(None, ".gif")
    check_file(tmp_path / "a.GIF", ".gif")
    for path, why in (("a.png", "must end in .gif"), ("gone/a.gif", "there is no folder")):
        with pytest.raises(InputError, match=why):
            check_file(tmp_path / path, ".gif")
    check_out(tmp_path / "new")
    with pytest.raises(InputError, match="exists; name another --out"):
        check_out(tmp_path)
    with pytest.raises(InputError, match="is not writable"):
        check_out(Path("/proc/new"))
