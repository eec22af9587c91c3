"""The training runs of `golden.py`: each function trains something small and returns its checksums.

They use public names only, so that they run on any tree.
"""

import csv
import dataclasses
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

import purerl
from purerl import wrappers
from purerl.catalog.algorithms import ALGORITHMS

SMALL = {
    "num_envs": 4,
    "rollout_length": 8,
    "hidden_sizes": (8,),
    "critic_hidden_sizes": (16,),
    "rnn_size": 8,
    "num_epochs": 2,
    "num_minibatches": 2,
    "learning_rate": 3e-3,
}
REPLAYING = {
    "rollout_length": 2,
    "batch_size": 16,
    "replay_capacity": 512,
    "learning_starts": 32,
    "target_update_interval": 10,
}
TIMES = (
    *("wall_seconds", "environment_idle", "env_steps_per_second", "train_seconds", "compile_seconds"),
    *("device", "versions"),  # and what depends on the machine
)
RUN = {"evaluations": 2, "eval_episodes": 4, "devices": 1}
FLAGS = (
    "--plain --num-envs 4 --rollout-length 8 --hidden-sizes 8 --total-timesteps 3200 --evaluations 2 --eval-episodes 4 "
    "--devices 1"
)
EVOLUTION = (
    "--tasks CartPole-v1 --num-envs 4 --rollout-length 8 --hidden-sizes 8 --total-timesteps 640 --learning-rate 1e-2 "
    "--population 4 --generations 3 --sigma 0.5 --devices 1"
)


def array_leaves(tree):
    """Return [(path, array)] for a tree's leaves; PRNG keys as their data."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        found.append((jax.tree_util.keystr(path), np.asarray(leaf)))
    return found


def digest(array):
    """Return the checksum of an array's dtype, shape and bytes."""
    head = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()[:16]


def checksums(summed, **trees):
    """Return {"sum": sum of the floats in `summed` but NaN, a tree's name: [[path of a leaf, its checksum], ...]}."""
    floats = [leaf for _, leaf in array_leaves(summed) if leaf.dtype.kind == "f"]
    total = sum(float(np.nansum(leaf.astype("f8"))) for leaf in floats)
    named = {part: [[path, digest(leaf)] for path, leaf in array_leaves(tree)] for part, tree in trees.items()}
    return {"sum": repr(total), **named}


def load(path):
    """Return what "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def small(algorithm, updates, given):
    """Return (config class, small settings for this many updates)."""
    config_class = load(ALGORITHMS[algorithm].config)
    fields = {field.name for field in dataclasses.fields(config_class)}
    wanted = SMALL | (REPLAYING if "replay_capacity" in fields else {})
    settings = {name: value for name, value in wanted.items() if name in fields} | given
    settings["total_timesteps"] = updates * settings["num_envs"] * settings["rollout_length"]
    return config_class, settings


def compiled(algorithm, environment, folder, updates=200, **given):
    """Train in one compiled program; `environment` is a name, or a function that returns an environment."""
    config_class, settings = small(algorithm, updates, given)
    env = purerl.make(environment) if isinstance(environment, str) else environment()
    train = purerl.make_train(load(ALGORITHMS[algorithm].factory), env, config_class(**settings))
    state, metrics = jax.jit(train)(jax.random.key(0))
    return checksums(state.agent, state=state, metrics=metrics)


def wrapped():
    """Return an environment in many wrappers."""
    env = wrappers.ActionRepeat(purerl.make("Catch", rows=6), num_repeats=2)
    env = wrappers.TimeLimit(wrappers.StickyActions(env, probability=0.2), time_limit=5)
    env = wrappers.RewardClip(wrappers.RewardScale(env, scale=0.5))
    return wrappers.PreviousActionReward(wrappers.Flatten(wrappers.FrameStack(env, num_frames=2)))


def run(algorithm, environment, folder, updates=100, **given):
    """Train with a run folder."""
    settings = RUN | small(algorithm, updates, given)[1]
    trained = purerl.train(algorithm, environment, out=folder / "run", display="none", **settings)
    return checksums(trained.state.agent, state=trained.state, files=files(folder / "run"))


def of_run(folder):
    """Return the checksums of a run folder: its newest checkpoint and its files."""
    state = purerl.load_run(folder).state
    return checksums(state.agent, state=state, files=files(folder))


def files(folder):
    """Return the contents of the tables, settings and summaries in a folder as a tree of arrays, without times."""
    readers = {".csv": columns, ".npz": lambda path: dict(np.load(path)), ".toml": settings_of, ".json": summary}
    return {path.name: readers[path.suffix](path) for path in folder.rglob("*.*") if path.suffix in readers}


def columns(path):
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    values = {name: np.array([row[i] for row in rows]) for i, name in enumerate(header) if name not in TIMES}
    return {"header": np.array(header), **values}


def settings_of(path):
    return jax.tree.map(lambda value: np.array(repr(value)), tomllib.loads(path.read_text()))


def summary(path):
    return {name: np.array(repr(value)) for name, value in json.loads(path.read_text()).items() if name not in TIMES}


def command(folder, *words, code=0):
    """Run `purerl` in a folder; return what it printed."""
    paths = os.pathsep.join((str(Path(purerl.__file__).parents[1]), str(Path(__file__).parent)))
    words = [sys.executable, "-m", "purerl", *" ".join(words).split()]
    done = subprocess.run(words, cwd=folder, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    if done.returncode != code:
        raise RuntimeError(f"{words} exited with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done.stdout


def killed(folder):
    """Kill a run, resume it, and require the result of a run that was not killed."""
    words = ("train ppo CartPole-v1 --seeds 2", FLAGS)
    command(folder, *words, "--out whole")
    command(folder, *words, "--out killed --callback golden_trainings:save_then_die", code=-signal.SIGKILL)
    command(folder, "train --plain --resume killed")
    whole, resumed = of_run(folder / "whole"), of_run(folder / "killed")
    if whole != resumed:
        raise RuntimeError(f"the resumed run ended with {resumed}, the uninterrupted one with {whole}")
    return resumed


def save_then_die(update, metrics, view):
    if update == 50:
        view.save()
    if update == 60:
        os.kill(os.getpid(), signal.SIGKILL)


def continued(folder, name, words):
    """Resume a copy of a run folder that the tree that wrote the checksums made."""
    old = Path(os.environ["GOLDEN_RUNS"]) / name
    if "GOLDEN_WRITES" in os.environ:
        shutil.rmtree(old, ignore_errors=True)
        old.parent.mkdir(exist_ok=True)
        command(old.parent, words, FLAGS, f"--out {name}")
    shutil.copytree(old, folder / name)
    command(folder, f"train --plain --resume {name} --total-timesteps 6400")
    return of_run(folder / name)


def commands(folder):
    """Train, export, evaluate and fine-tune from the command line."""
    command(folder, "train a2c Catch --out run", FLAGS)
    command(folder, "export run agent.safetensors")
    command(folder, "train a2c Catch --plain --start run --learning-rate 1e-2 --total-timesteps 640 --out tuned")
    printed = re.findall(r"-?\d+\.?\d*", command(folder, "evaluate agent.safetensors --episodes 8"))
    tuned = purerl.load_run(folder / "tuned").state
    return checksums(tuned.agent, run=files(folder / "run"), tuned=tuned, printed=np.array(printed))


def swept(folder, method, over, **search):
    """Sweep over some settings of PPO."""
    config_class, settings = small("ppo", 50, {})
    search |= {"over": over, "method": method, "seeds": 2, "points": 10, "devices": 1, "display": "plain"}
    purerl.sweep("ppo", "CartPole-v1", config_class(**settings), out=folder / "sweep", **search)
    found = files(folder / "sweep")
    return checksums(found["curves.npz"]["episode_return"], files=found)


def evolved(folder, objective, words=""):
    """Evolve an objective for a few generations."""
    command(folder, f"evolve {objective} --plain --out evolution {EVOLUTION} {words}")
    (checkpoint,) = (folder / "evolution" / "checkpoints").glob("0*")
    state = ocp.load(str(checkpoint), checkpointable_name="state")
    return checksums(state, state=state, files=files(folder / "evolution"))


def shipped(folder, name, episodes=4):
    """Load an agent that ships and evaluate it."""
    agents = purerl.load_run(f"zoo/{name}")
    return checksums(agents.state.agent, agent=agents.state.agent, played=agents.evaluate(episodes))
