"""Crafted folders: some cases with real commands, and all of them before a release."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).with_name("crafted.py"))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("words", "least"), [([], 300), (["--newest"], 120), (["--inputs"], 150)])
def test_no_crafted_folder_does_harm(words, least):
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split()[-6]) >= least, done.stdout  # N of M cases, 0 failed
