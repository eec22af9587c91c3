"""The recipes for clusters: they parse, and name commands, flags and variables that exist."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from purerl.commands.train import command
from purerl.devices.distributed import VARIABLES

SCRIPTS = Path(__file__).parents[2] / "scripts"
KUBERNETES = (SCRIPTS / "kubernetes.yaml").read_text()


def check_flags(text):
    known = {flag for param in command.params for flag in param.opts}
    used = set(re.findall(r"(?<![\w-])--(?:distributed|plain|resume|out|seeds|\w*coordinator\w*)", text))
    assert used and used <= known


def shell(text, tmp_path):
    script = tmp_path / "script.sh"
    script.write_text(text)
    subprocess.run(["bash", "-n", str(script)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--severity=warning", "--shell=bash", str(script)], check=True)


def test_slurm(tmp_path):
    text = (SCRIPTS / "slurm.sh").read_text()
    shell(text, tmp_path)
    check_flags(text)


@pytest.mark.parametrize(("exists", "name"), [(False, "train"), (True, "train"), (True, "sweep")])
def test_slurm_starts_or_goes_on(tmp_path, exists, name):
    """With `srun` and `purerl` that only say what they were called with."""
    echo = tmp_path / "srun"
    echo.write_text('#!/bin/bash\necho "$@"\n')
    echo.chmod(0o755)
    if exists:
        (tmp_path / "many").mkdir()
    called = ["bash", str(SCRIPTS / "slurm.sh"), name, "ppo", "CartPole-v1", "--out", str(tmp_path / "many")]
    said = subprocess.run(
        called, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True, capture_output=True, text=True
    ).stdout
    wanted = f"--resume {tmp_path}/many" if exists else f"ppo CartPole-v1 --out {tmp_path}/many"
    assert said.strip() == f"--kill-on-bad-exit=1 purerl {name} --distributed --plain {wanted}"


def test_kubernetes(tmp_path):
    service, job = yaml.safe_load_all(KUBERNETES)
    pods = job["spec"]["template"]["spec"]
    args = pods["containers"][0]["args"][0]
    shell(args, tmp_path)
    check_flags(args)
    assert all(name in args for name in VARIABLES.values())
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(re.search(r"PROCESSES=(\d+)", args)[1])
    assert service["metadata"]["name"] == pods["subdomain"] == job["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert {m["name"] for m in pods["containers"][0]["volumeMounts"]} == {v["name"] for v in pods["volumes"]}
