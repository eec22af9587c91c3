"""More cases of `crafted.py`, of what came last: meta-gradients, Disco's weights, levels, games, archives, markup."""

import os
import struct
import zipfile
from pathlib import Path

import numpy as np
from crafted_cases import ACT, FROM_CONFIG, RESUMED, TINY, endless, header, link, pipe, remove, setting, write

SHORT = f"{TINY} --eval-episodes 2 --evaluations 1"
REPLAY = "--replay-capacity 64 --learning-starts 64 --batch-size 2 --hidden-sizes 4 --num-atoms 5 --model-size 4"
MAKE = {
    "meta": f"evolve lpg --method meta-gradient --tasks Catch {TINY} --hidden-sizes 4 --population 2 --generations 1 "
    "--inner-updates 1 --out meta",
    "levels": f"train ppo GridWorld {SHORT} --levels accel --levels-capacity 4 --env.time_limit 4 --num-minibatches 1 "
    "--hidden-sizes 4 --out levels",
    "game": f"train ppo CoinGame {SHORT} --num-envs 4 --self-play 2 --env.time_limit 4 --num-minibatches 1 "
    "--hidden-sizes 4 --out game",
    "groups": f"train ppo CoinGame {SHORT} --env.time_limit 4 --num-minibatches 1 --hidden-sizes 4 "
    "--set red.learning_rate=0.001 --out groups",
    "pbt": f"sweep a2c Catch {TINY} --hidden-sizes 4 --seeds 1 --trials 4 --method pbt --generations 2 "
    "--over learning_rate=1e-3:1e-2 --out pbt",
    "disco": f"train disco Catch --weights random {SHORT} {REPLAY} --env.rows 5 --out disco",
}
RULE = f"train disco Catch --weights rule.npz {SHORT} {REPLAY} --env.rows 5 --out new"
META = "evolve --resume meta --plain --no-cache"
RIVALS = "meta-evaluate meta --seeds 2 --tuning 0 --no-cache"
PBT = "sweep --resume pbt --plain --no-cache"
MARKUP = "<script>evil</script>"


def file(text, name="rule.npz"):
    return lambda: Path(name).write_bytes(text)


def changed(change, name):
    return lambda: change(Path(name).absolute())


def rule(nan=False, **others):
    """Return what writes weights of Disco's shapes, 0 or NaN, in which some arrays are others."""

    def craft():
        from purerl.networks.weights_file import array_shapes

        arrays = {name: np.full(shape, np.nan if nan else 0.0, np.float32) for name, shape in array_shapes().items()}
        first = next(iter(arrays))
        arrays |= {first if name == "first" else name: array for name, array in others.items()}
        np.savez("rule.npz", **arrays)

    return craft


class Marks:
    """What a pickle runs."""

    def __reduce__(self):
        return os.mkdir, (str(Path.cwd().parent / "mark"),)


def pickled(name):
    def craft():
        with Path(name).open("wb") as handle:
            np.savez(handle, trained=np.array([Marks()], object))

    return craft


def directory(name):
    """Write an archive whose list of files has 32 GB, in a file of holes."""

    def craft():
        size = 2**35
        with Path(name).open("wb") as handle:
            handle.truncate(size)
            handle.seek(size)
            handle.write(struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, 0))
            handle.write(struct.pack("<4sLQL", b"PK\6\7", 0, size, 1))
            handle.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 2**32 - 1, 2**32 - 1, 0))

    return craft


def long_header(name, size=2**32 - 1):
    """Write an array whose header has 4 GB of blanks, some MB when compressed."""

    def craft():
        archive = zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        with archive, archive.open("trained.npy", "w", force_zip64=True) as handle:
            handle.write(b"\x93NUMPY\2\0" + struct.pack("<L", size))
            blanks = b" " * 2**24
            for _ in range(2**8):
                handle.write(blanks)

    return craft


def headed(text, name="rule.npz", entries=1):
    """Write arrays whose header is a text."""

    def craft():
        data = text.encode()
        with zipfile.ZipFile(name, "w") as archive:
            for i in range(entries):
                head = b"\x93NUMPY\2\0" + struct.pack("<L", len(data)) + data
                archive.writestr(f"a{i}.npy", head)

    return craft


def encrypted():
    rule()()
    data = bytearray(Path("rule.npz").read_bytes())
    for i in range(len(data) - 10):
        if data[i : i + 4] == b"PK\1\2":
            data[i + 8] |= 1
    Path("rule.npz").write_bytes(data)


def squeezed():
    """An archive whose method is LZMA with a dictionary of 4 GB."""
    with zipfile.ZipFile("rule.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("trained.npy", bytes(2**20))
    data = (
        Path("rule.npz")
        .read_bytes()
        .replace(b"\x09\x04\x05\x00\x5d\x00\x00\x80\x00", b"\x09\x04\x05\x00\x5d\xff\xff\xff\xff")
    )
    Path("rule.npz").write_bytes(data)


def replaced(name, old, new):
    def craft():
        text = Path(name).read_text()
        assert old in text, (name, old)
        write(Path(name), text.replace(old, new))

    return craft


def metrics(name, column, value):
    def craft():
        rows = [line.split(",") for line in Path(name).read_text().splitlines()]
        rows[-1][rows[0].index(column)] = value
        write(Path(name), "\n".join(map(",".join, rows)) + "\n")

    return craft


def copies(count, name="run"):
    """Copy the run's files of figures, without checkpoints."""

    def craft():
        for i in range(count):
            Path(f"copy{i}").mkdir()
            for part in ("config.toml", "metrics.csv", "summary.json"):
                Path(f"copy{i}", part).write_bytes(Path(name, part).read_bytes())

    return craft


def renamed(new):
    return lambda: Path("other").rename(new)


def films():
    for name in (f"{MARKUP.replace('/', '')}.gif", "\x1b[2J.gif", "x" * 200 + ".mp4"):
        Path("run", name).write_bytes(b"GIF89a")


def shadow(craft):
    """Put a folder named zoo next to the run, with a substitute for a published agent."""

    def make():
        Path("zoo").mkdir()
        craft(Path("zoo/ppo-CartPole-v1").absolute())

    return make


def extension(text):
    def craft():
        Path("novelty.py").write_text(Path("crafted.py").read_text())
        write(Path("run/config.toml"), Path("run/config.toml").read_text().replace("extension = []", text))

    return craft


def several(*crafts):
    return lambda: [craft() for craft in crafts] and None


def of_weights():
    """Yield the cases of files of weights."""
    yield "weights: a pipe", changed(pipe, "rule.npz"), RULE
    yield "weights: without an end", changed(endless, "rule.npz"), RULE
    yield "weights: /dev/zero", lambda: None, RULE.replace("rule.npz", "/dev/zero")
    yield "weights: a pickle", pickled("rule.npz"), RULE
    yield "weights: a pickle of a name that fits", rule(first=np.array([Marks()], object)), RULE
    yield "weights: a list of 32 GB", directory("rule.npz"), RULE
    yield "weights: a header of 4 GB", long_header("rule.npz"), RULE
    yield (
        "weights: 200,000 arrays",
        headed("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", entries=200_000),
        RULE,
    )
    yield "weights: nested header", headed("(" * 9000), RULE
    yield "weights: a negative shape", headed("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 10**9)}"), RULE
    many = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1000000000, " * 30 + ")}"
    yield "weights: a huge shape", headed(many), RULE
    fields = "{'descr': [" + "('a', " * 40 + "'<f4'" + ")" * 40 + "], 'fortran_order': False, 'shape': ()}"
    yield "weights: nested fields", headed(fields), RULE
    yield "weights: encrypted", encrypted, RULE
    yield "weights: squeezed by LZMA", squeezed, RULE
    yield "weights: NaN", rule(nan=True), RULE
    yield "weights: control characters", rule(**{"\x1b[2J": np.zeros(1, np.float32)}), RULE
    yield "weights: an agent's file", header("{}"), RULE.replace("rule.npz", "one.safetensors")
    yield (
        "weights: of a folder, in its settings",
        setting("weights", "'/dev/zero'", "disco/config.toml"),
        FROM_CONFIG.format("disco"),
    )
    yield "weights: a zero byte", setting("weights", '"\\u0000"', "disco/config.toml"), FROM_CONFIG.format("disco")
    yield "weights: resumed, /dev/zero", setting("weights", "'/dev/zero'", "disco/config.toml"), RESUMED.format("disco")


def of_evolutions():
    """Yield the cases of meta-gradients and of tasks."""
    values = [
        *(("inner_updates", "1000000000"), ("inner_updates", "0"), ("meta_entropy_coefficient", "nan")),
        *(("method", "'evolution'"), ("method", '"\\u001b[2J"'), ("population", "1000000000"), ("frames", "1e400")),
        *(("meta_learning_rate", "inf"), ("total_timesteps", "1000000000000000000"), ("chunk", "1000000000")),
        *(("num_envs", "1000000000"), ("rollout_length", "1000000000"), ("objective", '"lpg\\u0000"')),
    ]
    for i, (name, value) in enumerate(values):
        yield f"meta: {name} = {value}", setting(name, value, "meta/evolve.toml"), (META, RIVALS)[i % 2]
    task = '[task."Catch"]'
    toml = "meta/evolve.toml"
    yield (
        "meta: groups in a task",
        replaced(toml, "# end", '[task."Catch".groups.red]\nalgorithm = "crafted:start"\n# end'),
        META,
    )
    yield "meta: levels in a task", replaced(toml, task, f'{task}\nlevels = "dr"'), META
    yield "meta: an extension in a task", replaced(toml, task, f'{task}\nextension = ["crafted:start"]'), RIVALS
    yield "meta: a task that steers the terminal", replaced(toml, '"Catch"', '"\\u001b[2J"'), META
    yield "meta: a range without an end", replaced(toml, "rows = 10", 'rows = "2:1e400"'), META
    yield "meta: a range of text", replaced(toml, "rows = 10", 'rows = "\\u001b[2J:5"'), RIVALS
    yield "meta: a huge board", replaced(toml, "rows = 10", "rows = 1000000000"), RIVALS
    yield "meta: not a number in its table", metrics("meta/generations.csv", "generation", "nan"), META
    yield "meta: a gradient without an end", metrics("meta/generations.csv", "gradient_norm", "1e400"), META
    yield "meta: its table is a pipe", changed(pipe, "meta/generations.csv"), RIVALS
    yield (
        "meta: its report is a link",
        several(
            replaced(toml, "generations = 1", "generations = 2"),
            changed(remove, "meta/summary.json"),
            changed(link, "meta/report"),
        ),
        META,
    )


def of_extensions():
    """Yield the cases of levels, games and extensions of a folder."""
    file = "levels/config.toml"
    for name, value, command in (
        ("levels", "'crafted:start'", RESUMED),
        ("levels_over", "['time_limit=1:1e400']", FROM_CONFIG),
        ("levels_over", '["\\u001b[2J=1:2"]', RESUMED),
        ("levels_over", "['time_limit=1:1000000000000000000000']", FROM_CONFIG),
        ("levels_capacity", "1000000000000", RESUMED),
        ("levels_capacity", "1000000000", FROM_CONFIG),
        ("levels_replay_probability", "nan", RESUMED),
        ("levels_temperature", "1e-320", FROM_CONFIG),
        ("start", "'zoo/../../private'", FROM_CONFIG),
        ("start", '"zoo/\\u001b[2J"', FROM_CONFIG),
    ):
        yield f"levels: {name} = {value}", setting(name, value, file), command.format("levels")
    file = "game/config.toml"
    for name, value, command in (
        ("self_play", "1000000000", FROM_CONFIG),
        ("self_play", "-1", RESUMED),
        ("self_play", "'x'", ACT),
    ):
        yield f"game: {name} = {value}", setting(name, value, file), command.format("game")
    again = replaced(file, "total_timesteps = 80", "total_timesteps = 160")
    for change in (pipe, link, endless):
        yield (
            f"game: elo.csv {change.__name__}",
            several(again, changed(change, "game/elo.csv")),
            RESUMED.format("game"),
        )
    file, head = "groups/config.toml", "[groups.red]"
    for value in (
        "frozen = 'zoo/../../private'",
        "frozen = '/dev/zero'",
        "frozen = 'groups'",
        "policy = 'blue'",
        "start = 'zoo/x'",
    ):
        yield f"groups: {value}", replaced(file, head, f"{head}\n{value}"), FROM_CONFIG.format("groups")
    circle = replaced(file, head, "[groups.blue]\npolicy = 'red'\n[groups.red]\npolicy = 'blue'")
    yield "groups: a circle", circle, FROM_CONFIG.format("groups")
    many = "\n".join(f"[groups.x{i}]\nlearning_rate = 0.1" for i in range(9000))
    yield "groups: 9,000 of them", replaced(file, "# end", f"{many}\n# end"), FROM_CONFIG.format("groups")
    yield "groups: of markup", replaced(file, head, '[groups."[red]\\u001b[2J"]'), FROM_CONFIG.format("groups")
    for text, words in (
        ("extension = ['novelty:novelty']", FROM_CONFIG),
        ("extension = 'novelty:novelty'\nnovelty = 1.0", RESUMED + " --trust json"),
        ("extension = ['os:path', 'crafted:start']", ACT),
    ):
        yield f"extension: {text}, {words[:12]}", extension(text), words.format("run")


def of_pictures():
    """Yield the cases of several folders, pages and names."""
    for name in ("\x1b[2J", "\x9b2J", "<script>evil<script>", "$\\frac{$", "[red]x[link=file:etc]", "x" * 250):
        for command in ("compare run {0} --out new.png", "report run {0} --out new.html", "plot run {0} --out new.png"):
            yield f"a folder named {name[:20]!r}, {command[:7]}", renamed(name), command.format(name)
    folders = " ".join(f"copy{i}" for i in range(200))
    for command in ("compare {0} --out new.png", "report {0} --out new.html", "plot {0} --out new.png"):
        yield f"200 folders, {command[:7]}", copies(200), command.format(folders)
    other = lambda value: replaced("other/config.toml", 'environment = "Catch"', f'environment = "{value}"')
    for value in (MARKUP, "[red]$\\\\frac{", "\\u001b[2J\\u009b2J\\u202e"):
        yield f"another task, {value[:9]}, compare", other(value), "compare run other"
        yield f"another task, {value[:9]}, report", other(value), "report run other --out new.html"
    versions = replaced("run/summary.json", '"versions": {', f'"versions": {{"{MARKUP}": "{MARKUP}\\u001b[2J", ')
    yield "versions of markup", versions, "report run"
    yield "films of markup", films, "report run"
    yield "settings of markup", replaced("run/config.toml", "# end", f'"{MARKUP}" = "{MARKUP}"\n# end'), "report run"
    for change in (pipe, link, endless, remove):
        yield f"zoo: a name that is here, {change.__name__}", shadow(change), ACT.format("zoo/ppo-CartPole-v1")
    yield "zoo: a name above it", lambda: None, ACT.format("zoo/../private")
    yield "zoo: in settings", setting("start", "'zoo/ppo-CartPole-v1'", "run/config.toml"), FROM_CONFIG.format("run")


def of_sweeps():
    """Yield the cases of populations, their tables and their archives."""
    more = replaced("pbt/sweep.toml", "generations = 2", "generations = 4")
    for change in (pipe, link, endless):
        for name in ("lineage.csv", "trials.csv"):
            yield f"population: {name} {change.__name__}", several(more, changed(change, f"pbt/{name}")), PBT
    for name, craft in {
        "a pickle": pickled("pbt/curves.npz"),
        "a list of 32 GB": directory("pbt/curves.npz"),
        "a header of 4 GB": long_header("pbt/curves.npz"),
    }.items():
        yield f"population: curves, {name}", several(more, craft), PBT
        yield (
            f"sweep: curves, {name}",
            lambda c=craft: (c(), Path("pbt/curves.npz").rename("sweep/curves.npz")),
            ("sweep --resume sweep --plain --no-cache"),
        )
    for name, value in (
        ("generations", "1000000000"),
        ("learning_rate", '"1e-3:1e400"'),
        ("learning_rate", '"a:b:c:d"'),
        ("learning_rate", '"' + ",".join(["0.1"] * 50_000) + '"'),
        ("metric", '"\\u001b[2J"'),
        ("metric", "'$\\frac{'"),
    ):
        yield f"population: {name} = {value[:20]}", setting(name, value, "pbt/sweep.toml"), PBT
    own = replaced("sweep/best.toml", "extension = []", "extension = ['crafted:start']")
    yield "sweep: an extension in its best", own, "train --config sweep/best.toml --plain --out new"


def cases():
    """Yield (name, what crafts, the words of the command)."""
    for part in (of_weights, of_evolutions, of_extensions, of_pictures, of_sweeps):
        yield from part()
