"""The command line as a user sees it: real processes that are killed, and bad input reported in one line."""

import logging
import os
import re
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import pytest

from purerl.commands import cli
from purerl.envs.classic.cartpole import CartPole
from purerl.types import pytree
from tests.helpers.cli import purerl, told


def test_help_needs_no_jax():
    script = (
        "import sys\n"
        "from purerl.commands import cli\n"
        "for words in (['--help'], ['train', '--help'], ['list', 'algos'], ['list', 'envs'], ['--version']):\n"
        "    try:\n"
        "        cli.main(words)\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, words\n"
        "    heavy = {'jax', 'numpy', 'matplotlib', 'orbax', 'gymnax', 'brax', 'rich'} & set(sys.modules)\n"
        "    assert not heavy, (words, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name in ("train", "evaluate", "list", "check", "plot"):
        assert re.search(rf"^  {name} ", done.stdout, re.M)
    assert "CartPole-v1" in done.stdout
    assert "Schulman" in done.stdout


CARTPOLE = ("train", "ppo", "CartPole-v1")
BROKEN = "tests.helpers.broken cannot be imported: ZeroDivisionError: division by zero (broken.py:3)"


BAD = [
    (("train",), "no algorithm given"),
    (("train", "ppo"), "no environment given"),
    (("train", "pppo", "CartPole-v1"), "unknown algorithm 'pppo': did you mean 'ppo'"),
    (("train", "ppo", "CartPol-v1"), "unknown environment 'CartPol-v1': did you mean 'CartPole-v1'"),
    (("train", "ppo", "nowhere/CartPole-v1"), "unknown suite 'nowhere'"),
    (("train", "ppo", "no_such_module:Thing"), "no module 'no_such_module'"),
    (("train", "ppo", "tests.commands.test_cli:Nothing"), "unknown name in tests.commands.test_cli 'Nothing'"),
    (("train", "ppo", "tests.commands.test_cli:WrongReward"), "reward is int32[]; it must be float32[]"),
    (("train", "ppo", "tests.commands.test_cli:Crashes"), "Crashes.step(key, state, action) fails: ZeroDivisionError"),
    ((*CARTPOLE, "--learning-rat", "1"), "No such option '--learning-rat'"),
    ((*CARTPOLE, "--gravity", "12"), "Did you mean '--env.gravity'?"),
    ((*CARTPOLE, "--gama", ".9"), "Did you mean '--discount'?"),
    ((*CARTPOLE, "--learning-rate"), "requires an argument"),
    ((*CARTPOLE, "--learning-rate", "fast"), "learning_rate is 'fast'; it must be: number"),
    ((*CARTPOLE, "--learning-rate", "nan"), "learning_rate is nan; it must be above 0"),
    ((*CARTPOLE, "--discount", "1.5"), "discount is 1.5; it must be at least 0 and at most 1"),
    ((*CARTPOLE, "--num-envs", "0"), "num_envs is 0; it must be at least 1"),
    ((*CARTPOLE, "--num-envs", "2.5"), "num_envs is 2.5; it must be: integer"),
    ((*CARTPOLE, "--num-minibatches", "3"), "num_minibatches 3 does not divide num_envs x rollout_length = 512"),
    ((*CARTPOLE, "--total-timesteps", "-5"), "total_timesteps is -5; it must be above 0"),
    ((*CARTPOLE, "--total-timesteps", "100"), "total_timesteps 100 is less than one rollout"),
    ((*CARTPOLE, "--activation", "sine"), "activation is 'sine'; allowed: tanh, relu"),
    ((*CARTPOLE, "--hidden-sizes", "64,wide"), "hidden_sizes is 'wide'; it must be: integer"),
    ((*CARTPOLE, "--seeds", "0"), "seeds is 0; it must be at least 1"),
    ((*CARTPOLE, "--seed", "-1"), "seed is -1; it must be an integer from 0 to 4294967295"),
    ((*CARTPOLE, "--seed", "4294967296"), "seed is 4294967296; it must be an integer from 0 to 4294967295"),
    ((*CARTPOLE, "--env.gravit", "3"), "unknown parameter of CartPole-v1 'gravit': did you mean 'gravity'"),
    ((*CARTPOLE, "--env.gravity", "heavy"), "env.gravity is 'heavy'; it must be: number"),
    ((*CARTPOLE, "--env.gravity"), "--env.gravity needs a name and a value"),
    ((*CARTPOLE, "--config", "nowhere.toml"), "cannot read nowhere.toml"),
    ((*CARTPOLE, "--out", "."), ". exists; name another --out"),
    ((*CARTPOLE, "--out", "/proc/no/run"), "cannot write /proc/no/run"),
    (("train", "--resume", "nowhere"), "there is no run in nowhere: no such folder"),
    (("train", "--resume", "."), "there is no run in .: it has no config.toml"),
    (("train", "--resume", ".", "--seed", "3"), "--resume continues with the settings in the folder"),
    (("evaluate", "nowhere"), "there is no run in nowhere"),
    (("evaluate", ".", "--episodes", "0"), "--episodes"),
    (("plot", "nowhere"), "there is no run in nowhere"),
    (("check", "CartPol-v1"), "unknown environment 'CartPol-v1'"),
    (("list", "games"), "No such command 'games'"),
    ((*CARTPOLE, "--stop-at-return", "nan"), "stop_at_return is nan; it must be a number"),
    (("evolve", "kl", "--tasks", "CartPole-v1", "--sigma", "0"), "sigma is 0; it must be above 0"),
    (("train", "tests.helpers.broken:algorithm", "CartPole-v1"), BROKEN),
    (("train", "ppo", "tests.helpers.broken:Env"), BROKEN),
    (("check", "tests.helpers.broken:Env"), BROKEN),
    ((*CARTPOLE, "--callback", "tests.helpers.broken:watch"), BROKEN),
    (("play", "CartPole-v1", "--terminal", "--policy", "tests.helpers.broken:policy"), BROKEN),
    (("play", "CartPole-v1", "--terminal", "--policy", "tests.helpers.watching:broken"), "the policy tests.helpers."),
    (("play", "CartPole-v1", "--terminal", "--env.gravit", "1"), "unknown parameter of CartPole-v1 'gravit'"),
    (("play", "zoo/ppo-CartPole-v1", "--against", "random"), "--against takes the game first: purerl play"),
    (("evaluate", "zoo/ppo-CartPole-v1", "--checkpoint", "best"), "is an agent, which holds no checkpoints"),
    (("train", "ppo", "./walk.py"), "unknown environment './walk.py'"),
    (("--nonsense",), "No such option '--nonsense'"),
]


@pytest.mark.parametrize(
    ("words", "message"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_bad_input_is_one_line_and_code_2(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, err = told(capsys, *words)
    assert code == 2
    assert message in err
    assert err.startswith("purerl: error: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [], "something was written"


def test_bad_run_folders(capsys, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    file = folder / "config.toml"
    cases = [
        ("format = 1\nalgorithm = 'ppo'\nenviron", "is not a TOML file"),
        ("algorithm = 'ppo'\nenvironment = 'CartPole-v1'\n", "is not complete"),
        ("format = 1\nalgorithm = 'ppo'\nenvironment = 'CartPole-v1'\nnum_envs = 2\n", "is cut off"),
        ("format = 2\nversion = '7.0'\n", "has format 2, written by purerl 7.0"),
        ("format = 1\nalgorithm = 'ppo'\nenvironment = 'CartPole-v1'\nwings = 2\n\n# end\n", "unknown setting"),
    ]
    for content, message in cases:
        file.write_text(content)
        for words in (("train", "--resume", str(folder)), ("evaluate", str(folder))):
            code, err = told(capsys, *words)
            assert (code, err.count("\n")) == (2, 1)
            assert message in err


@pytest.mark.parametrize(
    ("words", "file", "content", "message"),
    [
        (("train", "--config"), "config.toml", "groups = 3", "groups is 3; it must be a table"),
        (("evaluate",), "config.toml", "[groups]\ntaggers = 3", "taggers is 3; it must be a table"),
        (("sweep", "--resume"), "sweep.toml", "search = {}\nover = 3", "over is 3; it must be a table"),
        (("sweep", "--resume"), "sweep.toml", "search = 3\nover = {}", "must be a table of settings; it is 3"),
        (("evolve", "--resume"), "evolve.toml", "task = 3", "task is 3; it must be a table"),
        (("evolve", "--resume"), "evolve.toml", "[task]\nCatch = 3", "Catch is 3; it must be a table"),
    ],
)
def test_a_value_where_a_table_should_be(words, file, content, message, capsys, tmp_path):
    head = "objective = 'kl'\nevolution = {}" if file == "evolve.toml" else "algorithm = 'ppo'\nenvironment = 'Catch'"
    (tmp_path / file).write_text(f"format = 1\n{head}\n{content}\n\n# end\n")
    code, err = told(capsys, *words, str(tmp_path))
    assert (code, err.count("\n")) == (2, 1) and message in err and file in err


ESCAPE = "\\u001b]0;stolen\\u0007"  # in TOML; sets a terminal's title


def test_escape_sequences_of_a_file_do_not_reach_the_terminal(capsys, tmp_path):
    file = tmp_path / "run" / "config.toml"
    file.parent.mkdir()
    head = "format = 1\nalgorithm = 'ppo'\nenvironment = "
    for content in (
        f'format = 2\nversion = "{ESCAPE}"\n',
        f"{head}'CartPole-v1'\n\"{ESCAPE}\" = 2\n",
        f'{head}"{ESCAPE}"\n',
        f'{head}"{ESCAPE}:{ESCAPE}"\n',
        f"{head}'CartPole-v1'\nactivation = \"{ESCAPE}\"\n",
    ):
        file.write_text(f"{content}\n# end\n")
        code, err = told(capsys, "evaluate", str(file.parent))
        assert (code, err.count("\n")) == (2, 1) and "stolen" in err
        assert "\x1b" not in err and "\x07" not in err


def test_a_mistake_in_a_real_process(tmp_path):
    done = purerl("train", "ppo", "CartPole-v0", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    *signs, error = done.stderr.splitlines()
    assert error.startswith("purerl: error: unknown environment 'CartPole-v0': did you mean 'CartPole-v1'?")
    assert signs in ([], ["purerl: loading JAX ..."]), "where the imports take long, it says so"


@pytree
class WrongReward(CartPole):
    """A reward of another type than promised."""

    def step(self, key, state, action):
        state, taken = CartPole.step(self, key, state, action)
        return state, taken._replace(reward=jnp.int32(1))


@pytree
class Crashes(CartPole):
    """A mistake in a user's code."""

    def step(self, key, state, action):
        return 1 / 0


@pytree
class Leaves(CartPole):
    """Ends the process, where the contract's check does not look: in training."""

    def step(self, key, state, action):
        if key.dtype != jax.random.key(0).dtype:
            sys.exit(7)
        return CartPole.step(self, key, state, action)


def test_sys_exit_in_a_step_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--prng", "fast", "--num-envs", "2", "--total-timesteps", "2000", "--plain")
    code, err = told(capsys, "train", "a2c", "tests.commands.test_cli:Leaves", *words)
    assert code == 2 and err.count("\n") == 1 and "something called sys.exit(7)" in err


@pytree
class FailsInTraining(CartPole):
    """As `Leaves`, but raises."""

    def step(self, key, state, action):
        if key.dtype != jax.random.key(0).dtype:
            raise KeyError("lost")
        return CartPole.step(self, key, state, action)


def test_what_fails_only_in_training_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--prng", "fast", "--num-envs", "2", "--total-timesteps", "2000", "--plain")
    code, err = told(capsys, "train", "a2c", "tests.commands.test_cli:FailsInTraining", *words)
    assert code == 2 and err.count("\n") == 1
    assert re.search(r"fails: KeyError: 'lost' \(test_cli.py:\d+\)", err)


@pytest.mark.long
def test_terminals_without_letters_and_names_that_are_no_text(tmp_path):
    """ASCII output, no home, no name; a folder whose name is bytes."""
    quick = {name: os.environ[name] for name in ("PATH", "XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")}
    bare = quick | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "ascii"}
    small = ("--num-envs", "2", "--hidden-sizes", "4", "--total-timesteps", "100", "--no-cache")
    done = purerl("train", "a2c", "Catch", *small, "--out", "läuft", cwd=tmp_path, env=bare)
    assert done.returncode == 0, done.stderr
    assert "l\\xe4uft" in done.stdout
    bad = os.fsdecode(b"bad\xff")
    done = purerl("train", "a2c", "Catch", "--out", bad, cwd=tmp_path, env=bare | {"PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 2 and "is not valid UTF-8" in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["läuft"]


def test_an_interrupt_that_python_cannot_raise_comes_again(tmp_path):
    """One in the garbage collector, while JAX is imported, printed a traceback, and the command went on."""
    (tmp_path / "struck.py").write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # also where this was started in the background\n"
        "class Struck:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT)\n"
        "del [Struck()][0]\n"
        "time.sleep(60)\n"
    )
    words = [sys.executable, "-m", "purerl", "check", "struck:Struck"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert done.returncode == 130 and done.stderr.splitlines()[-1] == "interrupted"
    assert "Exception ignored" not in done.stderr


def test_a_command_that_imports_for_long_says_so_within_a_second(tmp_path):
    """From the start of the process to the first character; a busy machine gets longer."""
    process = subprocess.Popen(
        [sys.executable, "-m", "purerl", "train", "ppo", "brax/ant", "--out", str(tmp_path / "run")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    began = time.perf_counter()
    try:
        first = process.stderr.readline()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert first == "purerl: loading JAX and brax ...\n" and time.perf_counter() - began < 8.0


def test_a_current_folder_that_is_gone(tmp_path):
    script = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m purerl list algos"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0 and "Schulman" in done.stdout, done.stderr


@pytest.mark.long
def test_a_backend_of_matplotlib_that_has_no_name_ends_nothing(run_folder, tmp_path):
    words = [sys.executable, "-m", "purerl", "plot", str(run_folder), "--out", str(tmp_path / "curve.png")]
    env = os.environ | {"MPLBACKEND": "nonsense"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0 and (tmp_path / "curve.png").exists(), done.stderr


def test_what_jax_logs_of_a_plugin_that_fails_is_a_line(capfd):
    """As of CUDA's plugin where there is no GPU; the log of JAX goes to stderr."""
    with pytest.raises(SystemExit):
        cli.main(["list", "algos"])
    logger = logging.getLogger("jax._src.xla_bridge")
    handler = logging.StreamHandler()
    logger.addHandler(handler)
    try:
        try:
            raise RuntimeError("Unable to load cuPTI. Is it installed?")
        except RuntimeError:
            logger.exception("Jax plugin configuration error: Exception when calling %s", "initialize()")
    finally:
        logger.removeHandler(handler)
    told = capfd.readouterr().err
    assert "when calling initialize(): Unable to load cuPTI. Is it installed?\n" in told and "Traceback" not in told


def test_whoever_closes_the_output_is_told_nothing():
    """As in `purerl list agents | head -1`."""
    reads, writes = os.pipe()
    os.close(reads)
    words = [sys.executable, "-m", "purerl", "list", "agents"]
    done = subprocess.run(words, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writes)
    told = done.stderr.replace("purerl: loading JAX ...\n", "")  # after half a second, on a slow machine
    assert (done.returncode, told) == (141, "")
