"""Cases of `crafted.py`: objectives, self-tuning, tables of groups, curves of sweeps, notes, long names, metadata."""

import itertools
import json
from pathlib import Path

import numpy as np
from crafted_cases import (
    ACT,
    FROM_CONFIG,
    READ,
    RESUMED,
    TINY,
    endless,
    link,
    more,
    noted,
    pipe,
    remove,
    setting,
    write,
)

SHORT = f"{TINY} --eval-episodes 2 --evaluations 1 --num-minibatches 1 --hidden-sizes 4"
MAKE = {
    "learned": f"train ppo Catch {SHORT} --env.rows 5 --objective evolve --out learned",
    "tuned": f"train ppo Catch {SHORT} --env.rows 5 --self-tune gae_lambda,entropy_coefficient --out tuned",
    "teams": f"train ppo CoinGame {SHORT} --env.time_limit 4 --set red.learning_rate=0.001 --out teams",
    "team.safetensors": "export teams team.safetensors",
}
OBJECTIVE = f"train ppo Catch {SHORT} --env.rows 5 --objective {{0}} --out new"
START = f"train a2c Catch --env.rows 5 --start {{0}} {TINY} --out new"
SWEEP = "sweep --resume sweep --plain --no-cache"
EVOLVE = "evolve --resume evolve --plain --no-cache"
META = "meta-evaluate evolve --seeds 2 --tuning 0 --no-cache"
LONG = "x" * 300
LEARNED = "evolve/objective.safetensors"


def stored(path):
    """Return (the arrays, the texts) of a file of safetensors."""
    from purerl.settings import agent_file

    return agent_file.arrays(Path(path)), agent_file.about(Path(path))


def repacked(path, change):
    """Return what writes a file again after `change` of its arrays and texts."""

    def craft():
        from purerl.settings import agent_file

        arrays, texts = stored(path)
        change(arrays, texts)
        Path(path).write_bytes(agent_file.pack(arrays, texts))

    return craft


def texts(path, **given):
    return repacked(path, lambda _, about: about.update(given))


def numbers(change):
    """Return a function that changes the first array of an objective, or adds others."""

    def apply(arrays, _):
        name = next(iter(arrays))
        found = change(name, arrays[name])
        arrays.update(found)

    return repacked(LEARNED, apply)


def unfinished(**given):
    """Return what changes the curves of the sweep as it was planned, as if a trial were not trained."""

    def craft():
        for name in ("trials.csv", "best.toml", "summary.json"):
            Path("sweep", name).unlink(missing_ok=True)
        with np.load("sweep/curves.npz") as file:
            arrays = {name: file[name] for name in file.files}
        arrays["trained"] = np.array([arrays["trained"][0], 0])
        for name, change in given.items():
            arrays[name] = change(arrays[name])
        Path("sweep/curves.npz").unlink()
        np.savez_compressed("sweep/curves.npz", **{name: x for name, x in arrays.items() if x is not None})

    return craft


def over(value, name="learning_rate"):
    def craft():
        path = Path("sweep/sweep.toml")
        text = path.read_text().replace("[over]", f"[over]\n{name} = {value}" if name != "learning_rate" else "[over]")
        lines = [
            f"learning_rate = {value}" if line.startswith("learning_rate = ") and '"' in line else line
            for line in text.splitlines()
        ]
        write(path, "\n".join(lines if name == "learning_rate" else text.splitlines()) + "\n")

    return craft


def tasks(count):
    def craft():
        path = Path("evolve/evolve.toml")
        text = path.read_text()
        begin = text.index('[task."Catch"]')
        one = text[begin:].replace("# end", "")
        write(path, text[:begin] + "".join(one.replace("Catch", f"Catch{i}") for i in range(count)) + "# end\n")

    return craft


def table(text):
    return lambda: write(Path("run/metrics.csv"), text(Path("run/metrics.csv").read_text()))


def results(text):
    def craft():
        found = json.loads(Path("run/summary.json").read_text())
        found["final_return"]["per_seed"] = "HERE"
        write(Path("run/summary.json"), json.dumps(found).replace('"HERE"', text))

    return craft


def of_objectives():
    """Yield the cases of files of objectives, of folders with them, and of names of them."""
    for change, words in itertools.product(
        (pipe, link, endless), (OBJECTIVE.format("evolve"), FROM_CONFIG.format("learned"))
    ):
        yield f"objective: {change.__name__}, {words[:14]}", lambda c=change: c(Path(LEARNED).absolute()), words
    for name in ("crafted:start", "os:abort", "\x1b[2J", "", "zoo/x", "lpg", "x" * 10**5):
        yield f"objective: evolved from {name[:20]!r}", texts(LEARNED, objective=name), OBJECTIVE.format("evolve")
    shapes = {
        "NaN": lambda name, x: {name: np.full_like(x, np.nan)},
        "doubles": lambda name, x: {name: x.astype(np.float64)},
        "no axes": lambda name, x: {name: np.float32(0)},
        "no numbers": lambda name, x: {name: np.zeros((0, *x.shape[1:]), np.float32)},
        "a name that steers the terminal": lambda name, x: {"\x1b[2J": x},
        "20,000 arrays": lambda name, x: {f"a{i}": np.zeros(1, np.float32) for i in range(20_000)},
    }
    for name, change in shapes.items():
        yield f"objective: {name}", numbers(change), OBJECTIVE.format(LEARNED)
    values = ("'crafted:start'", "'/dev/zero'", "'run'", f"'{LONG}'", '"\\u0000"', '"\\u001b[2J"', "['evolve']", "5")
    for value, words in zip(values, itertools.cycle((RESUMED, FROM_CONFIG, ACT)), strict=False):
        yield (
            f"objective = {value[:20]}, {words[:14]}",
            setting("objective", value, "learned/config.toml"),
            words.format("learned"),
        )
    yield "objective: a long name", lambda: None, OBJECTIVE.format(LONG)


def of_self_tuning():
    """Yield the cases of numbers that an agent tunes."""
    values = [
        *(("self_tune", "['crafted:start']"), ("self_tune", '["\\u001b[2J"]'), ("self_tune", "'gae_lambda'")),
        *(("self_tune", "['gae_lambda'" + ", 'gae_lambda'" * 3000 + "]"), ("self_tune", "[[1]]"), ("self_tune", "[]")),
        *(("self_tune_learning_rate", "nan"), ("self_tune_learning_rate", "1e400"), ("self_tune_decay", "-inf")),
        *(("gae_lambda", "1.0"), ("entropy_coefficient", "nan"), ("learning_rate", "'x'")),
    ]
    for (name, value), words in zip(values, itertools.cycle((RESUMED, FROM_CONFIG)), strict=False):
        yield (
            f"tuned: {name} = {value[:20]}, {words[:14]}",
            setting(name, value, "tuned/config.toml"),
            words.format("tuned"),
        )
    yield (
        "tuned: with an objective",
        setting("objective", "'crafted:start'", "tuned/config.toml"),
        FROM_CONFIG.format("tuned"),
    )


def of_groups():
    """Yield the cases of tables of groups, in folders and in the metadata of an agent."""
    values = [
        *("algorithm = 'dqn'", "algorithm = 'alphazero'", "algorithm = 5", "frozen = 5", "frozen = ['random']"),
        *(
            "frozen = 'run'",
            f"frozen = '{LONG}'",
            f"start = '{LONG}'",
            "start = 'evolve'",
            "start = 'team.safetensors'",
        ),
        *("hidden_sizes = [1000000000]", "learning_rate = 'crafted:start'", "optimizer = 'crafted:start'"),
        *("network = 'crafted:start'", "num_envs = 1000000000", '"\\u001b[2J" = 1', "a.b.c = 1"),
    ]
    for value in values:
        text = f"[groups.red]\n{value}"
        change = lambda text=text: write(
            Path("teams/config.toml"), Path("teams/config.toml").read_text().replace("[groups.red]", text)
        )
        yield f"teams: {value[:24]}", change, FROM_CONFIG.format("teams")
        settings = lambda _, about, text=text: about.update(settings=about["settings"].replace("[groups.red]", text))
        yield f"team's agent: {value[:24]}", repacked("team.safetensors", settings), ACT.format("team.safetensors")


def of_agents():
    """Yield the cases of the metadata of agents."""
    for name, value in (
        *(
            ("update", "9" * 9),
            ("update", "\u0663"),
            ("update", "-1"),
            ("update", "9" * 400),
            ("settings", "x" * 2**21),
        ),
        *(("settings", "\x1b[2J"), ("\x1b[2J", "x"), ("settings", "format = 99\nversion = '\\u001b[2J'\n# end\n")),
    ):
        given = {name: value}
        yield f"metadata: {name!r} = {value[:12]!r}", texts("one.safetensors", **given), ACT.format("one.safetensors")
    for old, new in (("seeds = 1", "seeds = 1000000000"), ("seed = 0", "seed = -1"), ("format = 1", "format = []")):
        change = lambda _, about, old=old, new=new: about.update(settings=about["settings"].replace(old, new))
        yield f"metadata: {new}", repacked("one.safetensors", change), ACT.format("one.safetensors")
    objects = lambda _, about: about.update(settings='from_python = ["\\u001b[2J", [1]]\n' + about["settings"])
    yield "metadata: Python objects", repacked("one.safetensors", objects), START.format("one.safetensors")
    itself = more("start = 'run'")
    yield "start: a run that starts from itself", itself, RESUMED.format("run")
    for name in ("evolve", "sweep", "run/checkpoints", "run/config.toml", "run/metrics.csv", LONG, "."):
        yield f"start: {name[:20]}", lambda: None, START.format(name)


def of_sweeps():
    """Yield the cases of curves and of tables of what is searched."""
    whole = {
        "trained beyond the end": {"trained": lambda x: x + 10**6},
        "trained below zero": {"trained": lambda x: x - 10**6},
        "huge chunks": {"sizes": lambda x: np.full_like(x, 10**9)},
        "chunks below zero": {"sizes": lambda x: np.full_like(x, -1)},
        "no sizes": {"sizes": lambda x: x[:0]},
        "no steps": {"env_steps": lambda x: None},
        "steps below zero": {"env_steps": lambda x: -x},
        "infinite returns": {"episode_return": lambda x: np.full_like(x, np.inf)},
        "settings that are none": {"settings": lambda x: np.frombuffer(b"\xff" * 100, np.uint8)},
        "settings that steer the terminal": {
            "settings": lambda x: np.frombuffer(bytes(x).replace(b"seed = 0", b'seed = "\\u001b[2J"'), np.uint8)
        },
    }
    for name, given in whole.items():
        yield f"curves: {name}", unfinished(**given), SWEEP
    for value in ("5", "[[1]]", '"1e-3"', '"1e-3:1e-2:log:log"', '"0:0"', '"' + "/".join(["1"] * 99_999) + '"'):
        yield f"over: {value[:20]}", over(value), SWEEP
    for name in ("seed", "total_timesteps", "algorithm", "crafted", '"env.rows"', '"\\u001b[2J"', "a.b.c"):
        yield f"over: {name}", over('"1:1000000000"', name), SWEEP
    for change in (pipe, link, endless):
        craft = lambda c=change: c(Path("sweep/best.toml").absolute())
        yield f"best.toml {change.__name__}", craft, "train --config sweep/best.toml --plain --no-cache --out new"
    away = lambda: (remove(Path("sweep/checkpoints")), Path("sweep/checkpoints").symlink_to(Path("run").absolute()))
    yield "sweep: checkpoints elsewhere", lambda: (away(), unfinished()()), SWEEP


def of_evolutions():
    """Yield the cases of tasks, and of checkpoints of an evolution."""
    yield "evolve: 5,000 tasks", tasks(5000), EVOLVE
    yield "evolve: no task", tasks(0), EVOLVE
    for change in (pipe, link, endless):
        craft = lambda c=change: c(Path("evolve/generations.csv").absolute())
        yield f"evolve: generations.csv {change.__name__}", craft, META
        craft = lambda c=change: (
            c(Path("evolve/objective.safetensors").absolute()),
            remove(Path("evolve/summary.json")),
        )
        yield f"evolve: objective.safetensors {change.__name__}, again", craft, EVOLVE
    for name in (LONG, "run", "one.safetensors", "evolve/report"):
        yield f"meta-evaluate {name[:20]}", lambda: None, f"meta-evaluate {name} --seeds 2 --tuning 0 --no-cache"


def of_notes():
    """Yield the cases of what checkpoints say of themselves."""
    values = [
        *(("members", True), ("members", 0), ("rows", -5), ("rows", 1e300), ("table", "x"), ("ended", [1])),
        *(
            ("ended", "x" * 10**6),
            ("settings", 'a = "\\u001b[2J"'),
            ("settings", "a = [[[1]]]"),
            ("settings", "[" * 9999),
        ),
        *(("evaluation_return", "x"), ("evaluation_return", 1e400), ("\x1b[2J", 1), ("compile_seconds", -1e300)),
    ]
    for (name, value), command in zip(values, itertools.cycle(("longer", "best")), strict=False):
        yield f"notes: {name!r} = {str(value)[:12]!r}, {command}", noted(name, value), READ[command]


def of_pages():
    """Yield the cases of tables, of results and of names that are drawn."""
    pages = ("plot", "compare", "report", "reports", "longer")
    crafts = {
        "a zero byte": table(lambda text: text.replace("update", "up\0date")),
        "carriage returns": table(lambda text: text.replace("\n", "\r")),
        "a byte order mark": table(lambda text: "\ufeff" + text),
        "quotes without an end": table(lambda text: text.replace(",", ',"', 3)),
        "a column twice": table(lambda text: text.replace("env_steps", "update")),
        "half a letter": table(lambda text: text.replace("update", "\ud800")),
        "returns of true": results("[true, false]"),
        "returns in returns": results("[[1.0], [2.0]]"),
        "10^6 returns": results("[" + "1.0," * 10**6 + "1.0]"),
        "returns by name": results('{"0": 1.0}'),
        "an environment of lists": setting("environment", "[['Catch']]"),
        "an algorithm of numbers": setting("algorithm", "1979-05-27"),
        "env that is not a table": lambda: write(
            Path("run/config.toml"), Path("run/config.toml").read_text().replace("[env]", "[env.env]")
        ),
        "30,000 settings": more("\n".join(f"x{i} = 1" for i in range(30_000))),
    }
    crafts["20,000 columns"] = table(
        lambda text: "\n".join(
            line + "".join(f",x{i}" if not n else ",1" for i in range(20_000))
            for n, line in enumerate(text.splitlines())
        )
        + "\n"
    )
    for (name, craft), command in zip([*crafts.items()] * 2, itertools.cycle(pages), strict=False):
        yield f"{name}, {command}", craft, READ[command]
    for metric in ("$\\frac{$", "\x1b[2J", LONG):
        yield f"plot --metric {metric[:10]!r}", lambda: None, f"plot run --metric {metric} --out new.png"


def cases():
    """Yield (name, what crafts, the words of the command)."""
    parts = (of_objectives, of_self_tuning, of_groups, of_agents, of_sweeps, of_evolutions, of_notes, of_pages)
    for part in parts:
        yield from part()
