"""What the pages of the native environments take from the code: spaces, parameters, results, the reference.

A page is `docs/environments/ID.md`, written by hand, with parts that are generated:

    [facts]                       the picture and the table of spaces, time limit, best return and source
    ```observation                one line per number, channel or value: MEANING | UNIT, or N x MEANING | UNIT for
    meaning | unit                several alike; bounds come from the space. ```observation NAME: a part of the
    ```                           observation, such as a group of agents
    ```action                     the same of the actions
    ```
    [parameters]                  the table of the fields
    [results]                     the curves, the table of published results, commands
    [api]                         the reference of its module
"""

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import md
import numpy as np
import published

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import environments_table as overview

import purerl
from purerl import registry
from purerl.catalog.environments import ENVIRONMENTS
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Stacked

DOCS = Path(__file__).parents[1]
SECTIONS = ("Observation", "Actions", "Reward", "Start", "End", "Parameters", "Results")
SHARED = (  # modules of `envs/` that belong to no page
    *("purerl.envs.minatar.common", "purerl.envs.minatar.nibbles", "purerl.envs.particle.physics"),
    "purerl.envs.grid.maze_levels",
)


def expand(env_id: str, text: str) -> str:
    """Return the page of an environment, complete.

    Raises:
      LookupError: for a part of a space that does not exist, or lines that do not count as many as it has.
    """
    env = purerl.make(env_id)
    for kind, space in (("observation", env.observation_space), ("action", env.action_space)):
        block = re.compile(rf"^```{kind}(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
        text = block.sub(lambda found, space=space: space_table(env_id, space, found[1], found[2]), text)
    parts = {"facts": facts, "parameters": parameters, "results": results, "api": api}
    return re.sub(rf"^\[({'|'.join(parts)})\]$", lambda found: parts[found[1]](env_id), text, flags=re.MULTILINE)


def facts(env_id: str) -> str:
    """Return the picture and the table that a page begins with."""
    env = purerl.make(env_id)
    doc = overview.paragraph(type(env).__doc__)
    limit = getattr(env, "time_limit", None)
    base = " ".join(overview.paragraph(parent.__doc__) for parent in type(env).__mro__[1:-1])
    speeds, _ = overview.read(overview.PAGE.read_text(encoding="utf-8"))
    said = {
        "Make": f'`purerl.make("{env_id}")`',
        "Observation": shape(env.observation_space),
        "Action": shape(env.action_space),
        "Time limit": f"{limit} steps" if limit else "none",
        "Best possible return": overview.best_return(doc),
        "Speed": f"{speeds[env_id]} steps per second of one CPU core, random play" if speeds.get(env_id) else "",
        "Levels": "draws and mutates its own ([levels](../levels.md))" if hasattr(env, "draw_level") else "",
        "Source": md.linked(overview.source(doc) or overview.source(base)),
    }
    return f"![Random play of {env_id}](../gallery/{env_id}.gif)\n\n{md.facts_table(said)}"


def shape(space: Space) -> str:
    """Return a short form of a space, such as f32[4] from 0 to 1."""
    return overview.describe(space).replace(" in ", " from ").replace(" .. ", " to ")


def space_table(env_id: str, space: Space, part: str | None, text: str) -> str:
    """Return the table of a space, or of a named part of it, with the meanings that a page gives.

    Raises:
      LookupError: if there is no such part, or the lines do not count as many as it has.
    """
    if part is not None:
        if not isinstance(space, Dict) or part not in space.spaces:
            raise LookupError(f"{env_id}: no part {part!r} of {overview.describe(space)}")
        space = space.spaces[part]
    space = space.space if isinstance(space, Stacked) else space
    lines = [_meaning(line) for line in text.strip().splitlines()]
    columns, head = _rows(space)
    total = sum(count for count, _, _ in lines)
    if total != len(columns):
        raise LookupError(f"{env_id}: {total} meanings for the {len(columns)} entries of {overview.describe(space)}")
    units, rows, first = any(unit for _, _, unit in lines), [], 0
    for count, meaning, unit in lines:
        names, bounds = zip(*columns[first : first + count], strict=True)
        label = names[0] if count == 1 else f"{names[0]} to {names[-1]}"
        rows.append((label, meaning, *([unit] if units else []), *bounds[0]))
        first += count
    header = (head, "meaning", *(["unit"] if units else []), *(("low", "high") if columns[0][1] else ()))
    return md.table(header, rows)


def _meaning(line: str) -> tuple[int, str, str]:
    """Return (count, meaning, unit) of "3 x meaning | unit"."""
    meaning, _, unit = line.partition(" | ")
    found = re.match(r"(\d+) x (.*)", meaning)
    return (int(found[1]), found[2], unit) if found else (1, meaning, unit)


def _rows(space: Space) -> tuple[list[tuple[str, tuple[str, ...]]], str]:
    """Return ((name, bounds) of each entry of a space, what the entries are)."""
    match space:
        case Discrete(n=n):
            return [(str(i), ()) for i in range(n)], "value"
        case MultiDiscrete(nvec=nvec):
            return [(str(i), ("0", str(n - 1))) for i, n in enumerate(nvec)], "index"
    assert isinstance(space, Box)
    if len(space.shape) == 3:
        return [(str(i), ()) for i in range(space.shape[-1])], "channel"
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), space.shape) for bound in (space.low, space.high))
    if len(space.shape) == 2:
        return [(" x ".join(map(str, space.shape)), (_number(low.min()), _number(high.max())))], "cells"
    flags = jnp.dtype(space.dtype) == jnp.bool_
    return [
        (str(i), () if flags else (_number(a), _number(b))) for i, (a, b) in enumerate(zip(low, high, strict=True))
    ], "index"


def _number(value: float) -> str:
    return ("∞" if value > 0 else "-∞") if np.isinf(value) else f"{value:.4g}"


def parameters(env_id: str) -> str:
    """Return the table of an environment's fields, and how to set them."""
    cls: Any = registry.environment_class(env_id)
    fields = dataclasses.fields(cls)
    names = [field.name for field in fields]
    numbers = [field.name for field in fields if isinstance(field.default, int | float)]
    example = next((name for name in numbers if name != "time_limit"), numbers[0] if numbers else "")
    value = getattr(cls(), example) if example else ""
    said = (
        f'Set them by name: `purerl.make("{env_id}", {example}={_shown(value)})`, or `--env.{example} {_shown(value)}` '
        "on the command line. "
        if example
        else ""
    )
    return (
        f"{md.fields_table(cls, names)}\n\n{said}A field marked \\* is static: each of its values "
        "compiles a program of its own. All others may be traced, so `jax.vmap` can vary them within one program."
    )


def _shown(value: Any) -> str:
    return f"{float(value):.6g}" if isinstance(value, float) or hasattr(value, "shape") else str(value)


def results(env_id: str) -> str:
    """Return the picture and the table of the published results, and the commands that train and watch."""
    table = published.of_task(env_id)
    picture = (
        f"![Learning curves on {env_id}](../results/{env_id}.png)\n\n"
        if (published.FOLDER / f"{env_id}.png").exists()
        else ""
    )
    tuned = [name for name, _ in published.configs(task=env_id)]
    name = "ppo" if "ppo" in tuned or not tuned else tuned[0]
    commands = [f"purerl train {name} {env_id}"]
    agents = sorted(
        path.stem
        for folder in (published.ROOT / "zoo", published.ROOT / "purerl" / "zoo")
        for path in folder.glob(f"*-{env_id}.safetensors")
    )
    if agents:
        commands.append(f"purerl play zoo/{agents[0]} --gif episode.gif")
    said = [
        f"Tuned settings ship for {', '.join(f'[{n}](../algorithms/{n}.md)' for n in tuned)}."
        if tuned
        else "No tuned settings ship for it: `purerl train` uses the algorithm's defaults.",
        f"Trained agents: {', '.join(f'`zoo/{agent}`' for agent in agents)}." if agents else "",
    ]
    shown = f"{picture}{table}\n\n{published.RETURNS}\n\n" if table else "No results are published for it yet.\n\n"
    return shown + "\n".join(f"    {command}" for command in commands) + "\n\n" + " ".join(filter(None, said))


def module_of(env_id: str) -> str:
    """Return the module of an environment."""
    return ENVIRONMENTS[env_id].partition(":")[0]


def api(env_id: str) -> str:
    """Return the line of the reference."""
    return f"## API\n\n[modules: {module_of(env_id)}]"


def families() -> dict[str, list[str]]:
    """Return the ids by family, in the order of the catalog."""
    found: dict[str, list[str]] = {}
    for env_id in ENVIRONMENTS:
        found.setdefault(module_of(env_id).split(".")[2], []).append(env_id)
    return found


TITLES = {
    "classic": "Classic control",
    "bsuite": "bsuite",
    "bandit": "Bandits",
    "grid": "Grids",
    "games": "Games of two agents",
    "particle": "Particles, several agents",
    "tag": "Tag, several agents",
    "memory": "Memory",
    "control": "Continuous control",
    "minatar": "MinAtar",
}


def index() -> str:
    """Return the table of all environments, a section per family."""
    parts = []
    for family, ids in families().items():
        rows = []
        for env_id in ids:
            env = purerl.make(env_id)
            doc = overview.paragraph(type(env).__doc__)
            title = (sys.modules[module_of(env_id)].__doc__ or "").split("\n")[0].partition(": ")[2]
            limit = getattr(env, "time_limit", None)
            spaces = (shape(env.observation_space), shape(env.action_space))
            rows.append((f"[{env_id}]({env_id}.md)", title, *spaces, str(limit or "none"), overview.best_return(doc)))
        head = ("environment", "task", "observation", "action", "time limit", "best possible return")
        parts.append(f"## {TITLES[family]}\n\n{md.table(head, rows)}")
    return "\n\n".join(parts)


def old_addresses() -> str:
    """Return a table of the modules that had a section on api/environments, with their old anchors."""
    rows = []
    for env_id, path in ENVIRONMENTS.items():
        module, _, name = path.partition(":")
        anchors = f'<span id="{module}.{name}"></span><span id="{module.replace(".", "-").replace("_", "-")}"></span>'
        rows.append((f"{anchors}`{module}`", f"[{env_id}](../environments/{env_id}.md)"))
    return md.table(("module", "page"), rows)
