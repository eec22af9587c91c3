"""The cases of `crafted.py`: what is crafted in copies of the folders that `MAKE` makes, and which command opens it."""

import itertools
import json
import os
import shutil
from pathlib import Path

import numpy as np

TINY = "--num-envs 2 --rollout-length 4 --total-timesteps 80 --no-cache --plain"
MAKE = {
    "run": f"train a2c Catch {TINY} --seeds 2 --evaluations 2 --eval-episodes 4 --env.rows 5 --keep-best --out run",
    "sweep": f"sweep a2c Catch {TINY} --seeds 1 --trials 2 --over learning_rate=1e-3:1e-2 --out sweep",
    "evolve": f"evolve ppo --tasks Catch {TINY} --population 2 --generations 1 --out evolve",
    "one.safetensors": "export run one.safetensors",
}
READ = {  # commands that read a run's folder
    "resume": "train --resume run --plain --no-cache",
    "longer": "train --resume run --total-timesteps 160 --plain --no-cache",
    "config": "train --config run --plain --no-cache --out new",
    "start": f"train a2c Catch --env.rows 5 --start run {TINY} --out new",
    "evaluate": "evaluate run --episodes 2 --no-cache",
    "best": "evaluate run --checkpoint best --episodes 2 --no-cache",
    "play": "play run --terminal",
    "policy": "play Catch --policy run --terminal",
    "explain": "explain --config run",
    "search": "sweep --config run --over learning_rate=1e-3:1e-2 --trials 2 --plain --no-cache --out new",
    "plot": "plot run --out new.png",
    "compare": "compare run other",
    "report": "report run",
    "reports": "report run other --out new.html",
    "export": "export run new.safetensors",
}
TABLES = ("resume", "longer", "plot", "compare", "report", "reports")  # that read metrics.csv
AGENTS = {
    "evaluate": "evaluate one.safetensors --episodes 2 --no-cache",
    "play": "play one.safetensors --terminal",
    "start": f"train a2c Catch --env.rows 5 --start one.safetensors {TINY} --out new",
    "trust": f"train a2c Catch --env.rows 5 --start one.safetensors {TINY} --out new --trust json",
    "explain": "explain --config one.safetensors",
    "config": "train --config one.safetensors --plain --no-cache --out new",
}
SEARCH = {
    "resume": "sweep --resume sweep --plain --no-cache",
    "best": "train --config sweep/best.toml --plain --out new",
}
EVOLVE = {
    "resume": "evolve --resume evolve --plain --no-cache",
    "meta": "meta-evaluate evolve --seeds 2 --tuning 0 --no-cache",
}
CODE = (
    "import pathlib\npathlib.Path({mark!r}).write_text('it ran')\nfrom purerl.envs.bsuite.catch import Catch as Env\n"
)
CODE += "def start(key): pass\n"
VALUES = (  # values of a setting, in TOML
    *("1000000000", "1000000000000000000", "-1", "0", "nan", "-inf", "1e400", "1" * 5000, "9" * 400 + ".5", "''"),
    *("'crafted:Env'", "'os:abort'", "'$\\frac{'", '"\\u001b[2J\\u0007"', "[1, [2]]", "{a = {b = 1}}", "1979-05-27"),
    *("true", "[" * 3000 + "]" * 3000, "'" + "x" * 10_000 + "'", "['crafted:start', 5]", "[4" + ", 4" * 3000 + "]"),
)
CELLS = ("inf", "-1", "1e400", "9" * 400, "1" * 5000, "x", "\x1b[2J", "nan", "1_0", "0.5", "", "1e18", "-inf")
JSON = (
    "1" * 5000,
    "1e400",
    "NaN",
    "-Infinity",
    "[" * 3000 + "]" * 3000,
    '"\\u001b[2J"',
    "{}",
    "null",
    "[[1]]",
    "10" * 15,
)
RESUMED = "train --resume {0} --plain --no-cache"
FROM_CONFIG = "train --config {0} --plain --no-cache --out new"
ACT = "evaluate {0} --episodes 2 --no-cache"


def pipe(path):
    remove(path)
    os.mkfifo(path)


def link(path):
    remove(path)
    path.symlink_to(Path.cwd() / "private")


def endless(path):
    remove(path)
    with path.open("wb") as file:
        file.truncate(2**41)


def emptied(path):
    remove(path)
    path.touch()


def folder(path):
    remove(path)
    path.mkdir()


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def setting(name, value, file="run/config.toml"):
    """Return what gives a setting another value; one that is not there is put before the end of the first table."""

    def craft():
        lines = Path(file).read_text().splitlines()
        found = [i for i, line in enumerate(lines) if line.startswith(f"{name} = ")]
        if found:
            lines[found[0]] = f"{name} = {value}"
        else:
            lines.insert(1, f"{name} = {value}")
        write(Path(file), "\n".join(lines) + "\n")

    return craft


def write(path, text):
    path.chmod(0o644)
    path.write_text(text, encoding="utf-8", errors="surrogatepass")


def more(text, file="run/config.toml"):
    return lambda: write(Path(file), Path(file).read_text().replace("# end", f"{text}\n\n# end"))


def cell(column, value):
    def craft():
        rows = [line.split(",") for line in Path("run/metrics.csv").read_text().splitlines()]
        rows[2][rows[0].index(column) if isinstance(column, str) else column] = value
        write(Path("run/metrics.csv"), "\n".join(map(",".join, rows)) + "\n")

    return craft


def columns(names):
    def craft():
        head, *lines = Path("run/metrics.csv").read_text().splitlines()
        text = [f"{head},{','.join(names)}", *(f"{line},{','.join(['0.5'] * len(names))}" for line in lines)]
        write(Path("run/metrics.csv"), "\n".join(text) + "\n")

    return craft


def rows(count):
    def craft():
        head, line, *_ = Path("run/metrics.csv").read_text().splitlines()
        rest = line.partition(",")[2]
        write(Path("run/metrics.csv"), "\n".join([head, *(f"{seed},{rest}" for seed in range(count))]) + "\n")

    return craft


def in_summary(path, value):
    def craft():
        table = json.loads(Path("run/summary.json").read_text())
        inner = table
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = "HERE"
        write(Path("run/summary.json"), json.dumps(table).replace('"HERE"', value))

    return craft


def noted(name, value):
    """Return what changes a note of each checkpoint, with its checksum."""

    def craft():
        from purerl.run import checksums

        for path in Path("run/checkpoints").rglob("_CHECKPOINT_METADATA"):
            table = json.loads(path.read_text())
            notes = table["custom_metadata"]
            notes[name] = value
            plain = {key: part for key, part in notes.items() if key not in ("notes", "checksum")}
            if name != "notes":
                notes["notes"] = checksums.of_notes(plain)
            path.write_text(json.dumps(table))

    return craft


def in_checkpoints(change, pattern):
    def craft():
        for path in sorted(Path("run/checkpoints").rglob(pattern)):
            if path.is_file():
                change(path.absolute())

    return craft


def packed(text, **arrays):
    def craft():
        from purerl.settings import agent_file

        Path("one.safetensors").write_bytes(agent_file.pack(arrays, {"settings": text, "update": "3"}))

    return craft


def header(text, size=None):
    data = text.encode()
    head = (len(data) if size is None else size).to_bytes(8, "little")
    return lambda: Path("one.safetensors").write_bytes(head + data + bytes(64))


def films():
    Path("run/a.gif").symlink_to(Path("private").absolute())
    os.mkfifo("run/b.mp4")
    Path("run/videos").symlink_to(Path.cwd())


def cases():
    """Yield (name, what crafts, the words of the command)."""
    some = itertools.cycle(["resume", "config", "evaluate", "explain", "report", "search", "start", "compare"])
    lines = Path("run/config.toml").read_text().splitlines()
    names = [line.partition(" = ")[0] for line in lines if " = " in line]
    for name, value in zip(names, itertools.cycle(VALUES), strict=False):
        command = next(some)
        yield f"run: {name} = {value[:20]}, {command}", setting(name, value), READ[command]
    for name, value in zip(names, itertools.cycle(VALUES[7:] + VALUES[:7]), strict=False):
        command = next(some)
        yield f"run: {name} = {value[:20]}, {command}", setting(name, value), READ[command]
    for name in (
        "seeds",
        "devices",
        "eval_episodes",
        "pool_size",
        "num_envs",
        "rollout_length",
        "hidden_sizes",
        "rows",
    ):
        for command in ("resume", "config", "explain", "search"):
            value = "[8" + ", 8" * 3000 + "]" if name == "hidden_sizes" else "1000000000"
            yield f"sizes: {name}, {command}", setting(name, value), READ[command]
    for name, value in (
        ("environment", "'crafted:Env'"),
        ("algorithm", "'crafted:start'"),
        ("environment", "'os:abort'"),
    ):
        for command in READ:
            yield f"names: {value}, {command}", setting(name, value), READ[command]
    groups = "[groups.red]\nalgorithm = 'crafted:start'"
    for text, command in itertools.product(
        (groups, "[groups.red]\nfrozen = '\\u0000'", "[x]"), ("config", "start", "resume")
    ):
        yield f"tables: {text[:30]!r}, {command}", more(text), READ[command]
    yield "a file of nested keys", more("a." * 3000 + "b = 1"), READ["config"]
    yield "a file of many long keys", more("\n".join("a." * 30 + f"b{i} = 1" for i in range(9000))), READ["config"]
    for file, command in itertools.product(("config.toml", "metrics.csv", "summary.json"), TABLES):
        change = (pipe, link, endless, emptied, folder)[hash_of(file + command) % 5]
        yield (
            f"files: {file} {change.__name__}, {command}",
            lambda f=file, c=change: c(Path("run", f).absolute()),
            READ[command],
        )
    for column, value in zip(
        itertools.cycle(("seed", "update", "env_steps", "wall_seconds", "episode_return", -1)), CELLS * 3, strict=False
    ):
        command = next(iter(TABLES[hash_of(f"{column}{value}") % 6 :]))
        yield f"cells: {column} {value[:12]!r}, {command}", cell(column, value), READ[command]
    for command in ("plot", "report", "compare", "reports"):
        yield f"300 metrics, {command}", columns([f"_${i}$" for i in range(300)]), READ[command]
        yield f"metrics with signs, {command}", columns(["$\\frac{1}{", "\x1b[2J", "<script>"]), READ[command]
        yield f"20,000 seeds, {command}", rows(20_000), READ[command]
    places = [
        ("final_return",),
        ("final_return", "mean"),
        ("final_return", "per_seed"),
        ("env_steps_per_second",),
        ("device",),
    ]
    for path, value in zip(itertools.cycle(places), JSON * 2, strict=False):
        command = ("report", "compare", "resume")[hash_of(f"{path}{value}") % 3]
        yield f"summary: {path[-1]} {value[:12]}, {command}", in_summary(path, value), READ[command]
    yield "films that are links and pipes", films, READ["report"]
    notes = {
        "rows": 10**30,
        "trained": float("inf"),
        "members": 10**9,
        "settings": [1],
        "ended": "\x1b[2J",
        "logged": "x",
        "step": 7,
    }
    notes |= {"checksum": {"a": [[[None] * 3, {}, 1]]}, "wall_seconds": float("nan")}
    for (name, value), command in itertools.product(notes.items(), ("resume", "evaluate")):
        yield f"notes: {name}, {command}", noted(name, value), READ[command]
    for change, pattern in itertools.product(
        (pipe, link, endless, emptied), ("_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt")
    ):
        command = ("evaluate", "best", "resume", "start")[hash_of(change.__name__ + pattern) % 4]
        yield f"checkpoints: {pattern} {change.__name__}, {command}", in_checkpoints(change, pattern), READ[command]
    config = Path("run/config.toml").read_text()
    agents = {
        "an environment": packed(config.replace('environment = "Catch"', 'environment = "crafted:Env"')),
        "a group": packed(config.replace("# end", f"{groups}\n# end").replace('"Catch"', '"CoinGame"')),
        "an algorithm": packed(config.replace('algorithm = "a2c"', 'algorithm = "crafted:start"')),
        "an extension": packed(config.replace("extension = []", "extension = ['crafted:start']")),
        "a huge array": packed(config, **{"params/actor/bias": np.zeros(10**7, np.float32)}),
        "sizes": packed(config.replace("num_envs = 2", "num_envs = 1000000000000")),
        "a long header": header("{}", 2**62),
        "nested keys": header("[" * 3000 + "]" * 3000),
        "wrong types": header(
            '{"__metadata__": {"settings": 1}, "a": {"dtype": "F32", "shape": [-1], "data_offsets": "x"}}'
        ),
    }
    for (name, craft), command in itertools.product(agents.items(), AGENTS):
        yield f"agent: {name}, {command}", craft, AGENTS[command]
    for name, value, command in itertools.product(
        ("trials", "points", "chunk", "seeds", "method", "learning_rate", "environment"),
        ("1000000000", "'crafted:Env'"),
        SEARCH,
    ):
        file = "sweep/sweep.toml" if command == "resume" else "sweep/best.toml"
        yield f"sweep: {name} = {value}, {command}", setting(name, value, file), SEARCH[command]
    for change, file in itertools.product((pipe, link, endless), ("sweep.toml", "curves.npz")):
        yield (
            f"sweep: {file} {change.__name__}",
            lambda f=file, c=change: c(Path("sweep", f).absolute()),
            SEARCH["resume"],
        )
    evolutions = [
        ("population", "1000000000"),
        ("seeds", "1000000000"),
        ("generations", "'x'"),
        ("strategy", "'evosax:os'"),
    ]
    evolutions += [
        ("objective", "'crafted:start'"),
        ("objective", "5"),
        ("devices", "1000000"),
        ("extension", "'crafted:start'"),
    ]
    for (name, value), command in itertools.product(evolutions, EVOLVE):
        yield f"evolve: {name} = {value}, {command}", setting(name, value, "evolve/evolve.toml"), EVOLVE[command]
    own = '[task."crafted:Env"]\nnum_envs = 2'
    yield "evolve: a task of a module", more(own, "evolve/evolve.toml"), EVOLVE["resume"]
    yield "evolve: an extension", more('extension = "crafted:start"', "evolve/evolve.toml"), EVOLVE["meta"]


def hash_of(text):
    return sum(text.encode())
