"""Bad command lines, in this process and without training: each ends in one line that names the wrong thing.

Two suites' ids are among them; what needs their packages is elsewhere.
"""

import pytest

from purerl.catalog.algorithms import ALGORITHMS
from purerl.commands import cli
from purerl.devices import memory
from purerl.run.lifecycle import LongJob
from purerl.settings import toml
from tests.helpers.cli import told

TRAIN = ("train", "ppo", "CartPole-v1")
SWEEP = ("sweep", "ppo", "CartPole-v1", "--over", "learning_rate=1e-3:1e-2")
SNAKE = "from purerl.envs.classic.cartpole import CartPole\n\n\nclass Snake(CartPole):\n    pass\n\n\nname = 3\n"

NUMBERS = {  # a flag of PPO's -> a value out of bounds, and what is said of it
    "num-envs": ("0", "num_envs is 0; it must be at least 1"),
    "rollout-length": ("0", "rollout_length is 0"),
    "total-timesteps": ("0", "total_timesteps is 0; it must be above 0"),
    "discount": ("1.01", "discount is 1.01"),
    "gae-lambda": ("-0.1", "gae_lambda is -0.1"),
    "num-epochs": ("0", "num_epochs is 0"),
    "num-minibatches": ("0", "num_minibatches is 0; it must be at least 1"),
    "clip-epsilon": ("0", "clip_epsilon is 0"),
    "value-clip": ("-1", "value_clip is -1"),
    "target-kl": ("0", "target_kl is 0"),
    "value-coefficient": ("-1", "value_coefficient is -1"),
    "entropy-coefficient": ("-1", "entropy_coefficient is -1"),
    "learning-rate": ("0", "learning_rate is 0"),
    "max-grad-norm": ("0", "max_grad_norm is 0"),
    "hidden-sizes": ("0", "hidden_sizes is 0"),
    "rnn-size": ("0", "rnn_size is 0"),
    "pool-size": ("0", "pool_size is 0"),
    "seeds": ("0", "seeds is 0"),
    "seed": ("-1", "seed is -1"),
    "log-interval": ("-1", "log_interval is -1"),
    "evaluations": ("-1", "evaluations is -1"),
    "eval-episodes": ("0", "eval_episodes is 0"),
    "checkpoint-interval": ("-1", "checkpoint_interval is -1"),
    "keep-checkpoints": ("0", "keep_checkpoints is 0"),
    "self-play": ("-1", "self_play is -1"),
    "actors": ("0", "actors is 0"),
    "step-time-limit": ("-1", "step_time_limit is -1"),
}
CHOICES = {
    "network": ("vgg", "network is 'vgg'; allowed: auto, mlp"),
    "activation": ("sine", "activation is 'sine'; allowed: tanh"),
    "rnn": ("rnn", "rnn is 'rnn'; allowed: none, gru"),
    "initializer": ("zeros", "initializer is 'zeros'; allowed"),
    "precision": ("float16", "precision is 'float16'; allowed: float32, bfloat16"),
    "prng": ("mt19937", "prng is 'mt19937'; allowed: fast"),
    "reset-policy": ("never", "reset_policy is 'never'; allowed: auto"),
    "learning-rate-schedule": ("exp", "learning_rate_schedule is 'exp'; allowed: constant, linear, cosine"),
    "clip-epsilon-schedule": ("up", "clip_epsilon_schedule is 'up'; allowed: constant"),
    "entropy-coefficient-schedule": ("off", "entropy_coefficient_schedule is 'off'"),
}
BOOLEANS = ("layer-norm", "share-body", "normalize-observation", "normalize-reward", "squash-actions")
MEANT = {  # other frameworks' words
    "lr": "learning-rate",
    "gamma": "discount",
    "n-envs": "num-envs",
    "n-steps": "rollout-length",
    "epochs": "num-epochs",
    "timesteps": "total-timesteps",
    "clip-range": "clip-epsilon",
    "ent-coef": "entropy-coefficient",
    "vf-coef": "value-coefficient",
    "anneal-learning-rate": "learning-rate-schedule",
    "num-seeds": "seeds",
    "learning-rat": "learning-rate",
    "hidden-size": "hidden-sizes",
    "minibatches": "num-minibatches",
    "output": "out",
    "device": "devices",
}
ELSEWHERE = {
    "LunarLander-v3": "gymnasium/LunarLander-v3",
    "LunarLander-v2": "gymnasium/LunarLander-v3",
    "BipedalWalker": "gymnasium/BipedalWalker-v3",
    "Ant": "brax/ant",
    "Ant-v5": "brax/ant",
    "HalfCheetah-v5": "brax/halfcheetah",
    "halfcheetah": "brax/halfcheetah",
    "Humanoid-v4": "brax/humanoid",
    "Pong": "envpool/Pong-v5",
    "Pong-v5": "envpool/Pong-v5",
    "PongNoFrameskip-v4": "envpool/Pong-v5",
    "SpaceInvaders": "SpaceInvaders-MinAtar",
    "Craftax": "craftax/Craftax-Symbolic-v1",
    "chess": "pgx/chess",
    "cartpole": "CartPole-v1",
    "CartPole-v0": "CartPole-v1",
    "Pendulum": "Pendulum-v1",
    "Breakout": "Breakout-MinAtar",
    "breakout-minatar": "Breakout-MinAtar",
}


def lines():
    """Yield (words, what the line must hold)."""
    for flag, (value, words) in (NUMBERS | CHOICES).items():
        yield (*TRAIN, f"--{flag}", value), words
    for flag in NUMBERS:
        yield (*TRAIN, f"--{flag}", "many"), f"{flag.replace('-', '_')} is 'many'; it must be"
        yield (*TRAIN, f"--{flag}"), f"Option '--{flag}' requires an argument"
        yield (*TRAIN, f"--{flag}", "nan"), f"{flag.replace('-', '_')} is nan"
    for flag in BOOLEANS:
        yield (*TRAIN, f"--{flag}", "3"), f"{flag.replace('-', '_')} is 3; it must be: true or false"
        yield (*TRAIN, f"--{flag}"), "requires an argument: true or false"
        yield (*TRAIN, f"--no-{flag}"), f"Write --{flag} false"
    for flag, meant in MEANT.items():
        yield (*TRAIN, f"--{flag}", "1"), f"No such option '--{flag}'. Did you mean '--{meant}'?"
    yield ("train", "dqn", "CartPole-v1", "--buffer-size", "9"), "Did you mean '--replay-capacity'?"
    for name, meant in ELSEWHERE.items():
        yield ("train", "ppo", name), f"unknown environment '{name}': did you mean '{meant}'?"
    for command in ("explain", "sweep"):
        yield (command, "ppo", "Ant"), "did you mean 'brax/ant'?"
        yield (command, "ppo", "CartPole-v1", "--lr", "1"), "Did you mean"
        yield (command, "CartPole-v1", "ppo"), "the algorithm comes first: ppo CartPole-v1"
        yield (command, "pppo", "CartPole-v1"), "unknown algorithm 'pppo': did you mean 'ppo'"
        yield (command,), "no algorithm given"
        yield (command, "ppo"), "no environment given"
    for algorithm in sorted(ALGORITHMS):
        yield ("train", algorithm, "CartPole-v1", "--learning-rate", "-1"), "learning_rate is -1.0; it must be above 0"
        yield ("train", algorithm, "Nowhere-v9"), "unknown environment 'Nowhere-v9'"
    for algorithm in ("dqn", "c51", "iqn", "munchausen", "qrdqn", "rainbow", "pqn", "r2d2", "disco"):
        yield ("train", algorithm, "Pendulum-v1"), f"{algorithm} needs discrete actions"
    for algorithm in ("ddpg", "td3"):
        yield ("train", algorithm, "CartPole-v1"), "reinforce, sac, spo, vmpo support them"
    for command in cli.COMMANDS:
        yield (command, "--nonsense"), "No such option '--nonsense'"
    yield from MORE


RANGES = (
    "lr=1e-4:1e-2",
    "learning_rate=1:0",
    "learning_rate=0:1:log",
    "learning_rate",
    "num_envs=1:8",
    "learning_rate=a:b",
)
MORE = [
    (("trian", "ppo", "CartPole-v1"), "unknown command 'trian': did you mean 'train'"),
    (("list", "games"), "No such command 'games'"),
    (("list", "envs", "--suite", "brx"), "unknown suite 'brx': did you mean 'brax'"),
    (("train",), "no algorithm given"),
    (("train", "ppo"), "no environment given"),
    (("train", "CartPole-v1", "ppo"), "the algorithm comes first: ppo CartPole-v1"),
    (("train", "CartPole-v1"), "unknown algorithm 'CartPole-v1'"),
    (("train", "ppo", ""), "unknown environment ''"),
    (("train", "ppo", "nowhere/CartPole-v1"), "unknown suite 'nowhere'"),
    (("train", "ppo", "snake.py:Snake"), "write snake:Snake"),
    (("train", "ppo", "./snake.py:Snake"), "write snake:Snake"),
    (("train", "ppo", "snake"), "such as snake:MyClass"),
    (("train", "ppo", "snake.py"), "such as snake:MyClass"),
    (("train", "ppo", "snake:Nope"), "unknown name in snake 'Nope': allowed: Snake"),
    (("train", "ppo", "snake:name"), "snake:name is not an environment"),
    (("train", "ppo", "no_such_module:Thing"), "there is no module 'no_such_module'"),
    (("train", "ppo", "a b:Thing"), "write module:name"),
    (("train", "ppo", ":Thing"), "write module:name"),
    (("train", "ppo", "CartPole-v1", "extra"), "unexpected extra argument"),
    (("train", "ppo", "CartPole-v1", "--keep-best", "true"), "--keep-best takes no value, and got true"),
    ((*TRAIN, "--num-minibatches", "3"), "num_minibatches 3 does not divide"),
    ((*TRAIN, "--num-envs", "100000000000"), "num_envs 100000000000 x rollout_length is"),
    (
        (*TRAIN, "--num-envs", "50000000", "--total-timesteps", "1e10"),
        "num_envs 50000000 x rollout_length is 6,400,000,000 steps",
    ),
    ((*TRAIN, "--num-envs", "10000000", "--total-timesteps", "1e10"), "the observations of a rollout take"),
    ((*TRAIN, "--hidden-sizes", "1000000,1000000"), "parameters and optimizer take"),
    ((*TRAIN, "--hidden-sizes", "64,wide"), "hidden_sizes is 'wide'"),
    ((*TRAIN, "--total-timesteps", "1e30"), "total_timesteps is"),
    ((*TRAIN, "--total-timesteps", "100"), "total_timesteps 100 is less than one rollout"),
    ((*TRAIN, "--total-timesteps", "1.5"), "total_timesteps is 1.5; it must be: integer"),
    ((*TRAIN, "--learning-rate", "inf"), "learning_rate is inf; it must be above 0"),
    ((*TRAIN, "--network", "nature"), "network nature needs images"),
    ((*TRAIN, "--network", "impala"), "network impala needs images"),
    ((*TRAIN, "--rnn", "gru", "--num-minibatches", "8"), "num_minibatches 8 does not divide num_envs"),
    (("train", "disco", "Catch"), "disco needs the weights of its rule: --weights disco_103.npz, the file at https://"),
    (("train", "disco", "Catch", "--weights", "no.npz"), "cannot read no.npz: No such file"),
    (("train", "r2d2", "CartPole-v1", "--rnn", "none"), "rnn is 'none'; allowed: gru, lstm"),
    ((*TRAIN, "--seed", "4294967296"), "seed is 4294967296; it must be an integer from 0 to 4294967295"),
    ((*TRAIN, "--sampler", "fast"), "sampler"),
    ((*TRAIN, "--mesh", "data"), "mesh is 'data'; it must be sizes of axes"),
    ((*TRAIN, "--mesh", "rows=2"), "unknown mesh axis 'rows'"),
    ((*TRAIN, "--devices", "0"), "devices is 0"),
    ((*TRAIN, "--devices", "many"), "devices is many"),
    ((*TRAIN, "--coordinator", "host:1"), "need --distributed"),
    ((*TRAIN, "--env.gravit", "3"), "did you mean 'gravity'"),
    ((*TRAIN, "--env.gravity", "heavy"), "env.gravity is 'heavy'; it must be: number"),
    ((*TRAIN, "--env.gravity"), "--env.gravity needs a name and a value"),
    ((*TRAIN, "--env.", "3"), "needs a name and a value"),
    ((*TRAIN, "--env.gravity", "nan"), "gravity is nan"),
    ((*TRAIN, "--env.time_limit", "0"), "time_limit is 0; it must be at least 1"),
    ((*TRAIN, "--env.time_limit", "-3"), "time_limit is -3"),
    ((*TRAIN, "--env.time_limit", "2.5"), "time_limit is 2.5"),
    ((*TRAIN, "--set", "nonsense"), "write GROUP.NAME=VALUE"),
    ((*TRAIN, "--set", "taggers.frozen=true"), "CartPole-v1 has a single agent"),
    (("train", "ppo", "TagContinuous", "--set", "tagers.frozen=true"), "did you mean 'taggers'"),
    (("train", "ppo", "TagContinuous", "--set", "taggers.lr=1"), "did you mean 'learning_rate'"),
    (("train", "ppo", "TagContinuous", "--set", "taggers.frozen=nowhere"), "there is no run in nowhere"),
    (("train", "vdn", "CartPole-v1"), "no groups of agents"),
    ((*TRAIN, "--self-play", "4"), "self-play"),
    (("train", "alphazero", "CartPole-v1", "--self-play", "4"), "self-play needs a game of two groups of agents"),
    (("train", "alphazero", "CoinGame"), "planning needs one agent, or two that take turns"),
    (("train", "alphazero", "CartPole-v1", "--search", "minimax"), "search is 'minimax'; allowed: gumbel, puct"),
    (("train", "alphazero", "CartPole-v1", "--num-simulations", "0"), "num_simulations is 0; it must be at least 1"),
    (("train", "alphazero", "CartPole-v1", "--sampler", "serial"), "planning cannot be combined with host"),
    (("train", "muzero", "CartPole-v1", "--unroll-steps", "0"), "unroll_steps is 0; it must be at least 1"),
    ((*TRAIN, "--config", "nowhere.toml"), "cannot read nowhere.toml"),
    ((*TRAIN, "--config", "broken.toml"), "broken.toml is not a TOML file"),
    ((*TRAIN, "--config", "empty"), "cannot read empty/config.toml"),
    (("train", "--config", "odd.toml"), "unknown setting in odd.toml 'wings'"),
    (("train", "--config", "wrong.toml"), "unknown algorithm 'pppo'"),
    (("train", "--config", "run", "--num-minibatches", "0"), "num_minibatches is 0"),
    (("train", "--config", "empty"), "cannot read empty/config.toml"),
    (("train", "dqn", "CartPole-v1", "--config", "run"), "is for the algorithm ppo, not dqn"),
    (("train", "ppo", "Catch", "--config", "run"), "is for the environment CartPole-v1, not Catch"),
    ((*TRAIN, "--out", "run"), "run exists; name another --out"),
    ((*TRAIN, "--out", "snake.py"), "snake.py exists and is not a folder; choose another --out"),
    ((*TRAIN, "--out", "snake.py/deeper"), "cannot write snake.py/deeper"),
    ((*TRAIN, "--out", "/proc/no/run"), "cannot write /proc/no/run"),
    (("train", "--resume", "nowhere"), "there is no run in nowhere: no such folder"),
    (("train", "--resume", "empty"), "there is no run in empty: it has no config.toml"),
    (("train", "--resume", "run", "--learning-rate", "1e-3"), "--resume continues with the settings in the folder"),
    (("train", "--resume", "run", "--lr", "1e-3"), "--resume continues with the settings in the folder"),
    (("train", "--resume", "run", "--env.gravity", "3"), "--resume continues with the settings in the folder"),
    (("train", "--resume", "run", "--out", "other"), "--resume continues with the settings in the folder"),
    (("train", "--resume"), "requires an argument"),
    (("sweep", "ppo", "CartPole-v1"), "there is nothing to search over"),
    *((("sweep", "ppo", "CartPole-v1", "--over", text), "") for text in RANGES),
    (("sweep", "ppo", "CartPole-v1", "--over", "lr=1,2"), "did you mean 'learning_rate'"),
    (("sweep", "ppo", "CartPole-v1", "--over", "env.gravty=8:12"), "did you mean 'env.gravity'"),
    (("sweep", "ppo", "CartPole-v1", "--over", "seed=1,2", "--method", "grid"), "unknown field to search over 'seed'"),
    (("sweep", "ppo", "CartPole-v1", "--over", "num_envs=4,4"), "names a value twice"),
    (("sweep", "ppo", "CartPole-v1", "--over", "num_envs=4", "--over", "num_envs=8"), "--over names a field twice"),
    (("sweep", "ppo", "CartPole-v1", "--over", "num_envs=0,4"), "num_envs is 0"),
    (("sweep", "ppo", "CartPole-v1", "--over", "activation=tanh,sine"), "activation is 'sine'"),
    (("sweep", "ppo", "CartPole-v1", "--over", "total_timesteps=1e3,1e4"), "total_timesteps cannot be searched"),
    (
        ("sweep", "ppo", "CartPole-v1", "--over", "learning_rate=1e-4,1e-3", "--method", "magic"),
        "unknown method 'magic'",
    ),
    (("sweep", "ppo", "CartPole-v1", "--over", "learning_rate=1e-4,1e-3", "--trials", "0"), "trials is 0"),
    (("sweep", "ppo", "CartPole-v1", "--over", "learning_rate=1e-4,1e-3", "--out", "run"), "run exists"),
    (("sweep", "--resume", "nowhere"), "there is no sweep in nowhere"),
    (("sweep", "--resume", "run"), "there is no sweep in run: it has no sweep.toml"),
    (("evolve",), "no objective given"),
    (("evolve", "lppo"), "unknown objective 'lppo': did you mean"),
    (("evolve", "lpo", "--tasks", "Nope"), "unknown environment 'Nope'"),
    (("evolve", "lpo", "--tasks", "Ant"), "did you mean 'brax/ant'"),
    (("evolve", "lpo", "--tasks", "CartPole-v1,CartPole-v1"), "names CartPole-v1 twice"),
    (("evolve", "lpo", "--population", "1"), "population is 1"),
    (("evolve", "lpo", "--seed", "99999999999"), "seed is 99999999999; it must be an integer from 0 to 4294967295"),
    (("evolve", "lpo", "--fitness", "best"), "unknown fitness 'best'"),
    (("evolve", "lpo", "--strategy", "cma"), "cma"),
    (("evolve", "lpo", "--lr", "1"), "Did you mean"),
    (("evolve", "lpo", "--out", "run"), "run exists"),
    (("evolve", "--resume", "nowhere"), "there is no evolution in nowhere"),
    (("meta-evaluate",), "Missing argument"),
    (("meta-evaluate", "nowhere"), "there is no evolution in nowhere"),
    (("meta-evaluate", "run", "--seeds", "1"), "seeds is 1"),
    (("meta-evaluate", "run", "--compare", "best"), "unknown compare 'best'"),
    (("evaluate",), "Missing argument"),
    (("evaluate", "nowhere"), "there is no run in nowhere"),
    (("evaluate", "empty"), "there is no run in empty"),
    (("evaluate", "run"), "run has no checkpoint yet"),
    (("evaluate", "run", "--episodes", "0"), "--episodes"),
    (("evaluate", "run", "--episodes", "many"), "--episodes"),
    (("evaluate", "run", "--gif", "x.mp4"), "x.mp4 must end in .gif"),
    (("evaluate", "run", "--gif", "nodir/x.gif"), "there is no folder nodir"),
    (("play", "CartPole-v1"), "play needs --gif FILE, --terminal or --against PLAYER"),
    (("play",), "Missing argument"),
    (("play", "CartPole-v1", "--terminal", "--seed", "99999999999"), "not in the range 0<=x<=4294967295"),
    (("play", "CartPol", "--terminal"), "unknown environment 'CartPol': did you mean 'CartPole-v1'"),
    (("play", "Ant", "--terminal"), "did you mean 'brax/ant'"),
    (("play", "CartPole-v1", "--gif", "x.txt"), "x.txt must end in .gif"),
    (("play", "CartPole-v1", "--gif", "x.mp4"), "x.mp4 must end in .gif"),
    (("play", "CartPole-v1", "--gif", "nodir/x.gif"), "there is no folder nodir"),
    (("play", "CartPole-v1", "--gif", "folder.gif"), "folder.gif is a folder"),
    (("play", "CartPole-v1", "--terminal", "--policy", "ppo"), "there is no policy 'ppo'"),
    (("play", "CartPole-v1", "--terminal", "--policy", "snake:Nope"), "unknown name in snake 'Nope'"),
    (("play", "CartPole-v1", "--terminal", "--max-steps", "0"), "--max-steps"),
    (("play", "CartPole-v1", "--terminal", "--fps", "0"), "--fps"),
    (("play", "empty", "--terminal"), "there is no run in empty"),
    (("play", "runs/ppo-CartPole-v1-2", "--terminal"), "there is no run in runs/ppo-CartPole-v1-2: no such folder"),
    (("play", "run", "--terminal"), "run has no checkpoint yet"),
    (("play", "run", "--terminal", "--policy", "snake:Nope"), "run is a run; name its environment"),
    (("check",), "Missing argument"),
    (("check", "CartPol-v1"), "unknown environment 'CartPol-v1'"),
    (("check", "CartPole-v1", "--steps", "2"), "--steps"),
    (("check", "snake.py:Snake"), "write snake:Snake"),
    (("plot",), "Missing argument"),
    (("plot", "nowhere"), "there is no run in nowhere"),
    (("plot", "empty"), "empty"),
    (("plot", "run"), "cannot read run/metrics.csv"),
    (("plot", "run", "--out", "x.txt"), "x.txt must end in .png"),
    (("plot", "run", "--out", "nodir/x.png"), "there is no folder nodir"),
    (("compare", "run"), "compare needs two runs or more"),
    (("compare", "run", "run"), "one is named twice"),
    (("compare", "run", "nowhere"), "there is no run in nowhere"),
    (("compare", "run", "empty"), "run has no summary.json yet"),
    (("compare", "run", "empty", "--out", "x.gif"), "x.gif must end in .png"),
    (("explain", "ppo", "CartPole-v1", "--num-envs", "1e12"), "at most 2,147,483,647"),
    (("explain", "ppo", "CartPole-v1", "--seeds", "0"), "seeds is 0"),
    ((*TRAIN, "--seeds", "1e9"), "seeds is 1000000000; it must be at most 1048576"),
    ((*TRAIN, "--devices", "1000000"), "devices is 1000000; it must be auto or an integer from 1 to 1024"),
    ((*TRAIN, "--mesh", "seed=1000000"), "it must be sizes of axes"),
    ((*TRAIN, "--mesh", "seed=1000,data=1000"), "1000000 devices; at most 1024 are used"),
    ((*TRAIN, "--hidden-sizes", ",".join(["8"] * 3000)), "hidden_sizes has 3,000 entries; it must have at most 64"),
    ((*TRAIN, "--pool-size", "2e9", "--reset-policy", "pool"), "pool of reset states, of 1 seeds take"),
    ((*TRAIN, "--pool-size", "1e10", "--reset-policy", "pool"), "a number is too large"),
    ((*TRAIN, "--eval-episodes", "1e9"), "eval_episodes is 1000000000; it must be at most 1048576"),
    ((*SWEEP, "--trials", "1e9"), "trials is 1000000000; it must be at most 1048576"),
    ((*SWEEP, "--trials", "1e6", "--seeds", "1e6"), "the curves of 1,000,000 trials x 1,000,000 seeds take"),
    (("evolve", "lpo", "--population", "1e6", "--seeds", "1e6"), "1,000,000 candidates of"),
    (("evolve", "lpo", "--population", "1e9"), "population is 1000000000; it must be at most 1048576"),
    (("explain", "ppo", "CartPole-v1", "--num-minibatches", "0"), "num_minibatches is 0"),
]
LINES = list(lines())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a module of one's own, a run that has just begun, and files that are none."""
    root = tmp_path_factory.mktemp("place")
    (root / "snake.py").write_text(SNAKE)
    for name in ("run", "empty", "folder.gif"):
        (root / name).mkdir()
    head = {"algorithm": "ppo", "environment": "CartPole-v1"}
    (root / "run" / "config.toml").write_text(toml.text("of a run", {"": head}))
    (root / "broken.toml").write_text("algorithm = ")
    (root / "odd.toml").write_text(toml.text("odd", {"": head | {"wings": 2}}))
    (root / "wrong.toml").write_text(toml.text("wrong", {"": head | {"algorithm": "pppo"}}))
    return root


@pytest.mark.parametrize(
    ("words", "message"), LINES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_bad_line_is_told_in_one(capsys, place, monkeypatch, words, message):
    monkeypatch.chdir(place)
    monkeypatch.setattr(LongJob, "complete", _accepted)
    monkeypatch.setattr(memory, "free", lambda: 2.5e10)
    before = sorted(place.rglob("*"))
    code, err = told(capsys, *words)
    assert code == 2 and err.startswith("purerl: error: ") and err.count("\n") == 1, err
    assert message in err and len(err) < 700, err
    after = [path for path in sorted(place.rglob("*")) if "__pycache__" not in path.parts]
    assert after == [path for path in before if "__pycache__" not in path.parts], "something was written"


def _accepted(job):
    raise AssertionError("it was accepted, and would train now")


def test_there_are_many():
    assert len(LINES) >= 250


@pytest.mark.parametrize("words", [(), ("list",)])
def test_alone_a_group_shows_its_help(capsys, words):
    with pytest.raises(SystemExit) as caught:
        cli.main(list(words))
    shown = capsys.readouterr()
    assert not caught.value.code and "Commands:" in shown.out and shown.err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ppo", "Maze", "--levels", "acel"), "levels is 'acel'; allowed: none, dr, plr, robust-plr, accel"),
        (
            ("ppo", "Maze", "--levels", "plr", "--levels-capacity", "3"),
            "levels_capacity is 3; it must be at least num_envs",
        ),
        (
            ("ppo", "Maze", "--levels", "plr", "--levels-temperature", "0"),
            "levels_temperature is 0.0; it must be above 0",
        ),
        (
            ("ppo", "Maze", "--levels", "plr", "--levels-score", "regret"),
            "levels_score is 'regret'; allowed: max_monte",
        ),
        (
            ("dqn", "Maze", "--levels", "accel"),
            "levels accel needs the values of an actor-critic, which dqn does not have",
        ),
        (("ppo", "CartPole-v1", "--levels-temperature", "1"), "levels_temperature is an option of levels"),
        (
            ("ppo", "CartPole-v1", "--levels", "plr"),
            "CartPole does not define levels of its own: give levels_over, such as gravity",
        ),
        (("ppo", "CartPole-v1", "--levels", "plr", "--levels-over", "gravitu=1:2"), "did you mean 'gravity'"),
        (("ppo", "MatrixGame", "--levels", "dr", "--levels-over", "a=1:2"), "and MatrixGame has groups of agents"),
        (("ppo", "gymnasium/CartPole-v1", "--levels", "dr"), "gymnasium/CartPole-v1 runs on the host"),
        (("alphazero", "Maze", "--levels", "dr"), "levels is dr, and alphazero plans in the environment"),
    ],
)
def test_levels_that_cannot_be(words, message, tmp_path, capsys):
    code, err = told(capsys, "train", *words, "--no-cache", "--out", str(tmp_path / "run"))
    assert code == 2 and message in err and err.count("\n") == 1, err
    assert not (tmp_path / "run").exists()
