"""metrics.csv: what was written is read again."""

import zlib

import numpy as np
import pytest

from purerl.errors import InputError
from purerl.reporting import metrics_csv


def test_log_reads_what_it_wrote(tmp_path):
    path = tmp_path / "metrics.csv"
    values = np.float32([0.1, 1e-30, 16777217.0, np.nan])
    file = metrics_csv.Log(path)
    for update, value in enumerate(values, 1):
        row = {"seed": 0, "update": update, "env_steps": 10 * update, "wall_seconds": 0.5, "loss": value}
        file.write([row, row | {"seed": 1}])
    file.close()
    np.testing.assert_array_equal(metrics_csv.read(path)["loss"].astype(np.float32), np.repeat(values, 2))
    path.write_text(path.read_text() + "0,5,50,0.5")  # cut off in the middle
    again = metrics_csv.Log(path, upto=2)
    again.write([{"seed": 0, "update": 3, "env_steps": 30, "wall_seconds": 1.0, "loss": np.float32(7)}])
    again.close()
    columns = metrics_csv.read(path)
    assert columns["update"].tolist() == [1, 1, 2, 2, 3]
    x, y = metrics_csv.by_seed(columns, "loss")[0]
    assert x.tolist() == [10, 20, 30]
    assert y[-1] == 7


COLUMNS = [*metrics_csv.FIRST_COLUMNS, "loss"]
ROWS = 12


@pytest.fixture
def written(tmp_path):
    """A file of six updates of two seeds."""
    file = metrics_csv.Log(tmp_path / "metrics.csv")
    for update in range(1, 7):
        row = {"update": update, "env_steps": 10 * update, "wall_seconds": 0.5, "loss": np.float32(update)}
        file.write([row | {"seed": seed, "evaluation_return": np.float32(np.nan)} for seed in (0, 1)])
    file.close()
    assert file.rows == ROWS and file.columns == COLUMNS
    return tmp_path / "metrics.csv"


def header(lines):
    return [b"0,0,0", *lines[1:]]


DAMAGES = {  # name -> (what is done to the lines, the lines that are lost)
    "a number": (lambda lines: [*lines[:3], lines[3].replace(b"0.500", b"half"), *lines[4:]], 1),
    "a row cut in the middle": (lambda lines: [*lines[:3], lines[3][:5], *lines[4:]], 1),
    "two rows in one": (lambda lines: [*lines[:3], lines[3] + lines[4], *lines[5:]], 2),
    "zeros": (lambda lines: [*lines[:3], b"\0" * 40, *lines[4:]], 1),
    "bytes that are no text": (lambda lines: [*lines[:3], b"\xff\xfe\x81", *lines[4:]], 1),
    "no header": (lambda lines: lines[1:], 0),
    "a damaged header": (lambda lines: [lines[0].replace(b"seed", b"s\0ed"), *lines[1:]], 0),
    "another header": (header, 0),
    "a row that is gone": (lambda lines: [*lines[:3], *lines[4:]], 1),
    "half of the file": (lambda lines: lines[:7], 6),
    "nothing but a header": (lambda lines: lines[:1], 12),
    "emptied": (lambda lines: [], 12),
    "binary": (lambda lines: [bytes(range(256)) * 10], 12),
}


@pytest.mark.parametrize("damage, lost", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_keeps_what_can_be_read_and_tells_the_rest(damage, lost, written):
    lines = damage(written.read_bytes().splitlines())
    written.write_bytes(b"".join(line + b"\n" for line in lines))
    told = []
    file = metrics_csv.Log(written, 6, others=["loss"], rows=ROWS, tell=told.append)
    assert file.rows == ROWS - lost
    row = {"seed": 0, "update": 7, "env_steps": 70, "wall_seconds": 1.0, "loss": np.float32(7)}
    file.write([row])
    file.close()
    found = metrics_csv.read(written)
    assert list(found) == COLUMNS and len(found["update"]) == ROWS - lost + 1
    np.testing.assert_array_equal(found["loss"], found["update"])
    (line,) = told
    assert f"has lost {lost} of 12 rows up to update 6" in line and "\n" not in line
    aside = written.with_name("metrics.csv.damaged")
    assert aside.exists() == ("damaged lines are in metrics.csv.damaged" in line)
    if aside.exists():
        assert aside.read_bytes().splitlines() == b"\n".join(lines).splitlines()


def test_values_that_were_changed_are_told(written):
    """A digit for a digit: the checksum is that of the bytes which a checkpoint knows, by zlib."""
    data = written.read_bytes()
    upto = b"".join(line for line in data.splitlines(keepends=True) if line[2:4] not in (b"5,", b"6,"))
    written.write_bytes(data.replace(b"0.500", b"0.600", 1))
    told = []
    metrics_csv.Log(written, 4, others=["loss"], rows=8, checksum=zlib.crc32(upto), tell=told.append).close()
    assert len(told) == 1 and "was changed after it was written" in told[0]
    written.write_bytes(data)
    file = metrics_csv.Log(written, 4, others=["loss"], rows=8, checksum=zlib.crc32(upto), tell=pytest.fail)
    file.write([{"seed": 0, "update": 7, "env_steps": 70, "wall_seconds": 1.0, "loss": np.float32(7)}])
    file.close()
    assert file.checksum == zlib.crc32(written.read_bytes())


def test_a_whole_file_says_nothing(written):
    before = written.read_bytes()
    for rows in (ROWS, 0):
        metrics_csv.Log(written, 6, others=["loss"], rows=rows, tell=pytest.fail).close()
        assert written.read_bytes() == before
    metrics_csv.Log(written, 3, others=["loss"], rows=6, tell=pytest.fail).close()
    assert metrics_csv.read(written)["update"].max() == 3
    written.write_bytes(written.read_bytes()[:9])  # a first line that was being written
    file = metrics_csv.Log(written, 0, tell=pytest.fail)
    assert file.columns == [] and written.read_bytes() == b""


def test_a_file_that_is_missing_or_a_folder_or_a_link(written):
    told = []
    written.unlink()
    metrics_csv.Log(written, 6, rows=ROWS, tell=told.append).close()
    written.unlink()
    (written / "inside").mkdir(parents=True)
    metrics_csv.Log(written, 6, rows=ROWS, tell=told.append).close()
    assert len(told) == 2 and all("has lost 12 of 12 rows" in line for line in told)
    assert (written.with_name("metrics.csv.damaged") / "inside").is_dir()
    other = written.with_name("other")
    other.write_text("precious")
    written.unlink()
    written.symlink_to(other)
    with pytest.raises(InputError, match="not a regular file"):
        metrics_csv.Log(written, 6, rows=ROWS, tell=told.append)
    assert other.read_text() == "precious"


@pytest.mark.parametrize(
    "damage, told",
    [
        (lambda data: data.replace(b"0,3,30,0.500", b"0,3,30"), "line 6 has 8 numbers instead of 9"),
        (lambda data: data.replace(b"seed", b"seat", 1), "names no seed"),
        (lambda data: data.replace(b"0,3,30", b"0,3,many"), "many"),
        (lambda data: data[:60] + b"\xff\xfe" + data[60:], "damaged"),
        (lambda data: bytes(range(256)), "damaged"),
        (lambda data: b"", "no rows yet"),
    ],
)
def test_reading_a_damaged_file_is_refused(damage, told, written):
    written.write_bytes(damage(written.read_bytes()))
    with pytest.raises(InputError, match=told) as caught:
        metrics_csv.read(written)
    assert str(written) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.long
def test_a_last_line_that_is_being_written_is_left_out(written):
    written.write_bytes(written.read_bytes() + b"0,7,70")
    assert metrics_csv.read(written)["update"].max() == 6
