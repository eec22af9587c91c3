"""The recipes for clusters: they parse, and name commands, flags and variables that exist."""

import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from purerl.commands.train import command
from purerl.devices.distributed import VARIABLES
from purerl.run import checkpoint
from tests.helpers.processes import own_devices

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


@pytest.fixture
def cluster(tmp_path):
    """A function that writes commands of a cluster that stand in for the real ones; returns their environment."""

    def make(**scripts):
        for name, body in scripts.items():
            path = tmp_path / name
            path.write_text(f"#!/bin/bash\n{body}\n")
            path.chmod(0o755)
        return {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7"}

    return make


SLURM = ["bash", str(SCRIPTS / "slurm.sh")]


@pytest.mark.parametrize(("exists", "name"), [(False, "train"), (True, "train"), (True, "sweep")])
def test_slurm_starts_or_goes_on(cluster, tmp_path, exists, name):
    """With `srun` and `purerl` that only say what they were called with."""
    env = cluster(srun='echo "$@"', scontrol='echo "$@"')
    if exists:
        (tmp_path / "many").mkdir()
    called = [*SLURM, name, "ppo", "CartPole-v1", "--out", str(tmp_path / "many")]
    said = subprocess.run(called, env=env, check=True, capture_output=True, text=True).stdout
    wanted = f"--resume {tmp_path}/many" if exists else f"ppo CartPole-v1 --out {tmp_path}/many"
    assert said.strip() == f"--kill-on-bad-exit=1 purerl {name} --distributed --plain {wanted}"


@pytest.mark.parametrize(
    ("number", "code", "queued"), [(signal.SIGUSR1, 143, True), (None, 0, False), (None, 3, False)]
)
def test_slurm_is_queued_again_when_its_time_is_up(cluster, tmp_path, number, code, queued):
    """Before its time is up, SLURM sends SIGUSR1 to the script alone; then the processes save, which takes a while."""
    env = cluster(
        srun=f"trap 'sleep 1; exit {code}' TERM\necho $$ > {tmp_path}/step\n"
        + (f"exit {code}" if number is None else "while true; do sleep .05; done"),
        scancel=f'[[ "$*" == "--signal=TERM 7" ]] && kill -TERM $(cat {tmp_path}/step)',
        scontrol=f'echo "$*" > {tmp_path}/queued',
    )
    job = subprocess.Popen([*SLURM, "train", "--out", str(tmp_path / "many")], env=env)
    while number is not None and not (tmp_path / "step").exists():
        time.sleep(0.01)
    if number is not None:
        job.send_signal(number)
    assert job.wait(timeout=20) == code
    assert (tmp_path / "queued").exists() == queued
    assert not queued or (tmp_path / "queued").read_text() == "requeue 7\n"


TASKS = """port=$((61440 + SLURM_JOB_ID % 4096)); [[ "$1" == --kill-on-bad-exit=1 ]] && shift
export SLURM_STEP_NODELIST=localhost SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_LOCALID=0
for i in 0 1; do SLURM_PROCID=$i "$@" & echo $! >> {folder}/tasks; done
code=0; for task in $(cat {folder}/tasks); do wait $task || code=$?; done; rm {folder}/tasks; exit $code"""


@pytest.mark.slow
def test_slurm_with_real_processes(cluster, tmp_path):
    """Preempted twice, once by its time limit and once by SIGTERM to its processes: queued again, it resumes."""
    env = own_devices() | cluster(
        srun=TASKS.format(folder=tmp_path),
        scancel=f"kill -TERM $(cat {tmp_path}/tasks)",
        scontrol=f'echo "$*" > {tmp_path}/queued',
        purerl=f'exec {sys.executable} -m purerl "$@"',
    )
    env |= {"SLURM_JOB_ID": str(secrets.randbelow(4000)), "PYTHONPATH": str(SCRIPTS.parent)}
    folder, steps = tmp_path / "many", 32 * 60000
    words = [*SLURM, "train", "ppo", "CartPole-v1", "--seeds", "2", "--num-envs", "2", "--rollout-length", "16",
             "--num-minibatches", "2", "--num-epochs", "1", "--hidden-sizes", "8", "--checkpoint-interval", "0.5",
             "--total-timesteps", str(steps), "--eval-episodes", "4", "--evaluations", "1",
             "--out", str(folder)]  # fmt: skip
    for strike in ("time", "preempted"):
        before = max(checkpoint.steps(folder / "checkpoints"), default=0)
        job = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        last = time.monotonic() + 200
        while job.poll() is None and time.monotonic() < last:
            if max(checkpoint.steps(folder / "checkpoints"), default=0) > before:
                break
            time.sleep(0.1)
        if strike == "time":
            job.send_signal(signal.SIGUSR1)
        else:
            subprocess.run(["scancel"], env=env, check=True)
        out, _ = job.communicate(timeout=100)
        assert job.returncode == 143 and "stopped at update" in out, out
        assert (tmp_path / "queued").exists() == (strike == "time")
        (tmp_path / "queued").unlink(missing_ok=True)
    text = (folder / "config.toml").read_text()
    short = 32 * (checkpoint.steps(folder / "checkpoints")[-1] + 5)
    (folder / "config.toml").write_text(text.replace(f"= {steps}\n", f"= {short}\n"))
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "done: final return" in done.stdout, done


@pytest.mark.long
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
