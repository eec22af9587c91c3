"""Files that are whole or not there, and tables."""

import pytest

from purerl.reporting.files import csv_text, write_whole


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, "one")

    def fail(part):
        part.write_text("tw")
        raise OSError

    with pytest.raises(OSError):
        write_whole(path, fail)
    assert path.read_text() == "one"
    write_whole(path, lambda part: part.write_text("two"))
    assert path.read_text() == "two"


def test_a_table():
    assert csv_text([{"a": 1, "b": True}, {"a": (2, 3), "b": None}]) == 'a,b\n1,true\n"2,3",none\n'
    assert csv_text([], "trial") == "trial\n"
