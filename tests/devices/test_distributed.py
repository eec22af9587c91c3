"""Several processes on this machine, over the CPU's collectives: one run, written once, resumed on another number.

As a script, `python test_distributed.py PORT INDEX FOLDER`, it is one of two processes that sweep and evolve together.
"""

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import purerl
from purerl.algos.ppo import PPOConfig, ppo
from purerl.devices import distributed
from purerl.errors import InputError
from purerl.evolution.inner_loop import Plug, Task
from purerl.functional.drifts import KLPenalty
from purerl.functional.objectives import Drifting
from purerl.run import checkpoint

FLAGS = [
    "a2c", "CartPole-v1", "--seeds", "3", "--num-envs", "2", "--rollout-length", "16", "--hidden-sizes", "8",
    "--log-interval", "5", "--evaluations", "1", "--eval-episodes", "4", "--checkpoint-interval", "0.0", "--plain",
]  # fmt: skip
STEPS = 32 * 20


CONFIG = PPOConfig(
    num_envs=2, rollout_length=16, num_minibatches=2, num_epochs=1, hidden_sizes=(8,), learning_rate=0.05
)


def halve(folder, **more):
    """Three trials on the ladder: on two devices one of the bank's members is none."""
    settings = {"method": "halving", "trials": 3, "seeds": 1, "rungs": 2, "points": 6, "display": "plain"}
    over = {"learning_rate": purerl.LogUniform(1e-3, 1e-1)}
    return purerl.sweep("ppo", "CartPole-v1", CONFIG, over=over, total_timesteps=STEPS, out=folder, **settings, **more)


def evolve(folder, **more):
    start = Drifting(drift=KLPenalty(coefficient=np.float32(1.0)))
    task = Task("CartPole-v1", purerl.make("CartPole-v1"), CONFIG, 128)
    settings = {"population": 4, "sigma": 1.0, "generations": 2, "frames": 2, "display": "plain"}
    return purerl.evolve(start, Plug(ppo, "objective"), [task], out=folder, **settings, **more)


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def environment():
    """A user's, each on the devices that it makes itself."""
    from tests.helpers.processes import own_devices  # not where this file is the script

    return {name: value for name, value in own_devices().items() if name != "SLURM_JOB_ID"}


def launch(command):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *command], env=environment(), **pipes)


def start(count, *arguments, port=None):
    """Start `count` processes of `purerl train`; a single process does not get a coordinator."""
    port, processes = port or free_port(), []
    for index in range(count):
        others = f"--distributed --coordinator localhost:{port} --num-processes {count} --process-index {index}".split()
        processes.append(launch(["-m", "purerl", "train", *arguments, *(others if count > 1 else [])]))
    return processes


def finish(processes, seconds=400):
    """Return (exit code, stdout, stderr) of each."""
    results = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=seconds)
            results.append((process.returncode, out, err))
    finally:
        for process in processes:
            process.kill()
    return results


def rows(folder):
    lines = (folder / "metrics.csv").read_text().splitlines()
    return [",".join(cell for i, cell in enumerate(line.split(",")) if i != 3) for line in lines]  # without the time


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The run of one process with two devices."""
    folder = tmp_path_factory.mktemp("runs") / "alone"
    results = finish(start(1, *FLAGS, "--total-timesteps", str(STEPS), "--devices", "2", "--out", str(folder)))
    assert results[0][0] == 0, results[0]
    return folder


@pytest.mark.long
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_are_one_run(alone, tmp_path, count):
    """The mesh is named: three seeds on four devices would split the environments, and add in another order."""
    folder = tmp_path / "together"
    words = [*FLAGS, "--mesh", f"seed={count}", "--total-timesteps", str(STEPS), "--out", str(folder)]
    results = finish(start(count, *words))
    assert [code for code, _, _ in results] == [0] * count, results
    assert "done: final return" in results[0][1]
    said = [line for _, out, _ in results[1:] for line in out.splitlines() if not line.startswith("[Gloo]")]
    assert not said, "the first process alone shows the run"
    assert rows(folder) == rows(alone)
    assert checkpoint.steps(folder / "checkpoints")[-1] == 20


@pytest.mark.long
def test_a_callback_is_called_in_the_first_process_and_ends_them_all(tmp_path, monkeypatch):
    shutil.copy(Path(__file__).parent.parent / "helpers" / "watching.py", tmp_path)
    monkeypatch.chdir(tmp_path)  # whose modules a command finds
    folder = tmp_path / "watched"
    words = [*FLAGS, "--total-timesteps", str(STEPS), "--out", str(folder), "--callback", "watching:enough"]
    results = finish(start(2, *words))
    assert [code for code, _, _ in results] == [0, 0], results
    assert "ended early, at update 10 of 20: enough" in results[0][1]
    (calls,) = folder.glob("calls-*.txt")
    refused = "an agent is not available in a callback with several processes: each holds only a part"
    assert calls.read_text().splitlines() == [f"5 3 {refused}", f"10 3 {refused}"]
    assert checkpoint.steps(folder / "checkpoints")[-1] == 10
    assert len(rows(folder)) == 1 + 3 * 2


def training(count, folder, *more):
    """Return processes that train for long, once there is a checkpoint, and the coordinator's port."""
    port = free_port()
    words = [*FLAGS, "--total-timesteps", str(STEPS * 5000), "--out", str(folder), *more]
    processes, deadline = start(count, *words, port=port), time.monotonic() + 300
    while not checkpoint.steps(folder / "checkpoints") and time.monotonic() < deadline:
        assert all(process.poll() is None for process in processes), finish(processes, 10)
        time.sleep(0.2)
    return processes, port


ENDED = (1, -signal.SIGABRT)  # a process that lost another one: by its own word or by JAX's


def listening(port):
    """Return the addresses at which this machine listens on a port, in hexadecimal."""
    lines = "".join(path.read_text() for path in Path("/proc/net").glob("tcp*")).splitlines()
    rows = [line.split() for line in lines]
    return [row[1].split(":")[0] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]


@pytest.mark.long
def test_a_lost_process_stops_the_others_and_the_run_goes_on(tmp_path):
    """Killed in the middle: JAX ends the other within the time limit; a single process resumes to the same result."""
    folder = tmp_path / "lost"
    processes, port = training(2, folder)
    assert listening(port) and not any(set(address) == {"0"} for address in listening(port)), "to all interfaces"
    processes[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    code, out, err = finish(processes[:1], distributed.LOST_SECONDS + 30)[0]
    assert time.monotonic() - killed < distributed.LOST_SECONDS + 15
    assert code in ENDED, err
    assert f"if one process dies, all of them exit; restart all of them with:\n  purerl train --resume {folder}" in out
    assert "Traceback" not in err
    kept = checkpoint.steps(folder / "checkpoints")
    assert kept
    text = (folder / "config.toml").read_text()
    short = 32 * (kept[-1] + 5)
    (folder / "config.toml").write_text(text.replace(f"= {STEPS * 5000}\n", f"= {short}\n"))
    code, out, err = finish(start(1, "--resume", str(folder), "--devices", "2", "--plain"))[0]
    assert code == 0, err
    assert "done: final return" in out


@pytest.mark.slow
def test_two_of_four_are_killed_at_once(tmp_path):
    folder = tmp_path / "lost"
    processes, _ = training(4, folder)
    for process in processes[1:3]:
        process.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    results = finish([processes[0], processes[3]], distributed.LOST_SECONDS + 30)
    assert time.monotonic() - killed < distributed.LOST_SECONDS + 15
    assert all(code in ENDED and "Traceback" not in err for code, _, err in results), results


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_sigterm_of_one_process_saves_and_stops_all(tmp_path, index):
    folder = tmp_path / "stopped"
    processes, _ = training(2, folder)
    processes[index].send_signal(signal.SIGTERM)
    results = finish(processes, 150)
    assert [code for code, _, _ in results] == [128 + signal.SIGTERM] * 2, results
    assert "stopped at update" in results[0][1] and "Traceback" not in str(results)


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["removed", "replaced"])
def test_a_folder_that_is_removed_midway_is_told_in_a_line(tmp_path, harm):
    folder = tmp_path / "gone"
    processes, _ = training(2, folder)
    folder.rename(tmp_path / "elsewhere")
    if harm == "replaced":
        folder.write_text("a file")
    results = finish(processes, distributed.LOST_SECONDS + 60)
    assert results[0][0] == 1 and results[1][0] in ENDED, results
    assert "cannot write" in results[0][1] and "Traceback" not in str(results), results


@pytest.mark.slow
def test_processes_sweep_and_evolve_together(tmp_path):
    """Bit-identical to one process with as many devices; one process reads their checkpoint."""
    port, (one, two) = free_port(), (tmp_path / "one", tmp_path / "two")
    processes = [launch([__file__, str(port), str(index), str(two)]) for index in (0, 1)]
    alone = halve(one / "sweep", devices=2)
    evolved = evolve(one / "evolution")
    results = finish(processes)
    assert [code for code, _, _ in results] == [0, 0], results
    assert "best: return" in results[0][1] and "done: mean" in results[0][1]
    assert [line for line in results[1][1].splitlines() if not line.startswith("[Gloo]")] == []

    assert (two / "sweep" / "trials.csv").read_text() == (one / "sweep" / "trials.csv").read_text()
    assert {path.name for path in (two / "sweep").iterdir()} == {path.name for path in (one / "sweep").iterdir()}
    again = halve(two / "sweep", devices=1, resume=True)
    np.testing.assert_array_equal(again.curves.episode_return, alone.curves.episode_return)
    with np.load(two / "sweep" / "curves.npz") as file:
        np.testing.assert_array_equal(file["trained"], alone.curves.trained)

    found = evolve(two / "evolution", resume=True)
    for mine, theirs in zip(jax.tree.leaves(found.candidate), jax.tree.leaves(evolved.candidate), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert checkpoint.steps(two / "evolution" / "checkpoints") == [2]


def test_a_coordinator_that_does_not_answer():
    began = time.monotonic()
    with pytest.raises(InputError, match=r"the coordinator localhost:\d+ did not answer within 1 s"):
        distributed.initialize(f"localhost:{free_port()}", 2, 1, start_seconds=1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("localhost:1", 2, None), "--distributed lacks --process-index"),
        (("localhost", 2, 1), "coordinator is 'localhost'; it must be HOST:PORT"),
        (("localhost:1", 2, 2), "process-index is 2; it must be from 0 to num-processes - 1 = 1"),
        (("localhost:1", "two", 1), "num-processes two and process-index 1 must be integers"),
        ((None, None, None), "--distributed needs --coordinator HOST:PORT"),
    ],
)
def test_places_that_cannot_be(given, message, monkeypatch):
    for name in (*distributed.VARIABLES.values(), *distributed.CLUSTERS):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match=message):
        distributed.initialize(*given)


@pytest.mark.parametrize(
    ("host", "listens"),
    [("127.0.0.1", "127.0.0.1:{}"), ("localhost", "localhost:{}"), ("[::1]", "[::1]:{}"), ("a-node", "[::]:{}")],
)
def test_the_first_process_listens_at_the_address_given(host, listens, monkeypatch):
    """Debian gives a machine's own name an address of 127/8: no other machine would reach it there."""
    real = socket.getaddrinfo
    known = lambda name, *args, **named: real("127.0.1.1" if name == "a-node" else name, *args, **named)
    monkeypatch.setattr(socket, "getaddrinfo", known)
    port = free_port()
    assert distributed._bind_address(f"{host}:{port}") == listens.format(port)


def test_an_address_of_another_machine_or_a_port_in_use():
    with pytest.raises(
        InputError, match=r"cannot listen at the coordinator's address 192\.0\.2\.1:8476 \(.*BIND_ADDRESS"
    ):
        distributed._bind_address("192.0.2.1:8476")
    with distributed.listen("127.0.0.1") as server:
        port = server.getsockname()[1]
        with pytest.raises(InputError, match="Address already in use"):
            distributed._bind_address(f"127.0.0.1:{port}")


def test_one_process_agrees_with_itself():
    np.testing.assert_array_equal(distributed.agree(3, True, 0), [[3, 1, 0]])
    assert distributed.first_does(lambda: "done") == "done"
    assert distributed.is_first()


if __name__ == "__main__":
    distributed.initialize(f"localhost:{sys.argv[1]}", 2, int(sys.argv[2]))
    halve(f"{sys.argv[3]}/sweep")
    evolve(f"{sys.argv[3]}/evolution")
