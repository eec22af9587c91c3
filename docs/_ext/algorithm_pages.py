"""What the pages of the algorithms take from the code: uses, core, settings, results, metrics and reference.

A page is `docs/algorithms/NAME.md`, written by hand, with lines that stand for generated parts:

    [usage]                       the table of what it can be used with
    [core: ppo.update]            the code of a function, of its own module or of another: [core: purerl.x.y:function]
    [line: clip_epsilon = 1]      in a sentence: the file and the line of this text; [line: purerl.x.y: text]
    [peers: CleanRL, paper]       a table of defaults next to those of others, from the lines after it: NAME: a; b
    [settings]                    the table of all settings
    [results]                     the curves and the table of published results
    [metrics]                     the table of the metrics that it logs, from docs/metrics.md
    [api]                         the reference of its module
"""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

import jax
import md
import published

import purerl
from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS, AlgorithmEntry
from purerl.networks.actor_critic import PolicyAgent
from purerl.types import Config, EnvironmentSpec

DOCS = Path(__file__).parents[1]
GOLDEN = DOCS.parent / "tests" / "golden" / "updates.json"
SECTIONS = (*("Equation", "Core", "Details", "Settings", "Results", "Metrics", "Common failures", "References"),)
SHARED = (  # modules of `algos/` that belong to no page
    *("purerl.algos.policy_gradient", "purerl.algos.off_policy", "purerl.algos.curiosity"),
    *("purerl.algos.sac_discrete", "purerl.algos.team_network", "purerl.algos.lpg"),
)


def expand(name: str, text: str) -> str:
    """Return the page of an algorithm, complete.

    Raises:
      LookupError: for a function, a line or a metric that does not exist.
    """
    module = ALGORITHMS[name].factory.partition(":")[0]
    text = _peers(name, text)
    text = re.sub(r"^\[usage\]$", lambda _: usage(name), text, flags=re.MULTILINE)
    text = re.sub(r"^\[core: (.*)\]$", lambda found: md.source_of(*_place(module, found[1])), text, flags=re.MULTILINE)
    text = re.sub(r"\[line: (.*?)\]", lambda found: md.line_of(*_place(module, found[1])), text)
    text = re.sub(r"^\[settings\]$", lambda _: settings(name), text, flags=re.MULTILINE)
    text = re.sub(r"^\[results\]$", lambda _: _results(name), text, flags=re.MULTILINE)
    text = re.sub(r"^\[metrics\]$", lambda _: metrics(name), text, flags=re.MULTILINE)
    return re.sub(r"^\[api\]$", lambda _: api(name), text, flags=re.MULTILINE)


def _place(module: str, given: str) -> tuple[str, str]:
    """Return (module, rest) of "purerl.x.y: rest", or of a rest in the page's own module."""
    found = re.match(r"(purerl(?:\.\w+)+):\s*(.*)", given)
    return (found[1], found[2]) if found else (module, given)


def config_of(name: str) -> type[Config]:
    """Return the class of an algorithm's settings."""
    return registry.algorithm(name)[1]


def usage(name: str) -> str:
    """Return the table of what an algorithm can be used with."""
    return md.facts_table(facts(name))


def facts(name: str) -> dict[str, str]:
    """Return what an algorithm can be used with, by heading."""
    entry, config = ALGORITHMS[name], config_of(name)
    kinds = _kinds(entry, config)
    levels = (
        "`dr`, `plr`, `robust-plr`, `accel`" if kinds.values else "`dr`" if kinds.groups and not entry.teams else ""
    )
    turns = kinds.groups and not kinds.joint and getattr(config, "takes_turns", True)
    several = {
        "plans": "both players of a turn-based game" if config.plans == 2 else "no",
        "team": "made for teams: it needs groups of agents",
        "groups": "a policy for each group"
        + (", also in turn-based games" if turns else ", but not in turn-based games"),
    }["plans" if config.plans else "team" if kinds.joint else "groups"]
    own = {
        "Actions": ", ".join(entry.actions),
        "Learns from": "a replay buffer" if hasattr(config, "replay_ratio") else "the rollout of its own policy",
        "Recurrent network": _rnn(config),
        "Several agents": f"{several} ([many agents](../many-agents.md))" if several != "no" else several,
        "Self-play": "`--self-play N`" if kinds.self_play else "no",
        "Levels": f"{levels} ([levels](../levels.md))" if levels else "no",
        "Host environments": "no"
        if config.plans or kinds.joint
        else "Gymnasium, EnvPool, ALE ([how](../host-environments.md))",
    }
    if config.plans:
        own["Needs"] = "the environment's own step, so environments in JAX"
    return own


@dataclasses.dataclass(frozen=True)
class Kinds:
    """What an algorithm's functions say about where it can be used."""

    values: bool  # its critic scores levels
    groups: bool  # it may be the policy of a group of agents
    joint: bool  # it learns the value of a team
    self_play: bool


def _kinds(entry: AlgorithmEntry, config: type[Config]) -> Kinds:
    joint, plans = bool(getattr(config, "joint", False)), config.plans
    if joint:
        return Kinds(values=False, groups=True, joint=True, self_play=False)
    env = purerl.make("CartPole-v1" if "discrete" in entry.actions else "Pendulum-v1")
    spec = EnvironmentSpec(env.observation_space, env.action_space)
    made = registry.load(entry.factory)(spec, config().resumed())  # no file of weights is needed
    small = jax.eval_shape(made.init, jax.random.key(0))
    on_policy = isinstance(small, PolicyAgent)
    return Kinds(
        values=made.values is not None and not plans,
        groups=not plans,
        joint=False,
        self_play=plans == 2 or (on_policy and not plans),
    )


def _rnn(config: type[Config]) -> str:
    field = {field.name: field for field in dataclasses.fields(config)}.get("rnn")
    if field is None:
        return "no"
    kinds = [f"`{kind}`" for kind in field.metadata["choices"] if kind != "none"]
    return f"{', '.join(kinds)} (`--rnn`)"


def settings(name: str) -> str:
    """Return the tables of an algorithm's settings: those that it declares itself, then those that it inherits."""
    config = config_of(name)
    names = [field.name for field in dataclasses.fields(config)]
    own = [n for n in names if n in vars(config).get("__annotations__", {})]
    rest = [n for n in names if n not in own]
    text = md.fields_table(config, own)
    if rest:
        text += f"\n\nThe following settings are inherited, with their defaults:\n\n{md.fields_table(config, rest)}"
    tuned = published.configs(algorithm=name)
    note = (
        "A setting marked \\* is static: each of its values compiles a program of its own. All others are numbers, "
        "which a sweep varies within one program."
    )
    if tuned:
        tasks = ", ".join(f"`{task}`" for _, task in tuned)
        note += f"\n\n`purerl train {name} TASK` uses tuned settings from `configs/{name}/` instead for: {tasks}."
    return f"{text}\n\n{note}"


def _peers(name: str, text: str) -> str:
    """Replace each [peers: ...] and the lines after it by a table with our own defaults in the second column."""
    fields = {field.name: field for field in dataclasses.fields(config_of(name))}

    def compared(found: re.Match) -> str:
        others = [part.strip() for part in found[1].split(";")]
        rows = []
        for line in found[2].strip().splitlines():
            setting, _, values = line.partition(": ")
            if setting not in fields:
                raise LookupError(f"{name} has no setting {setting!r}")
            theirs = [part.strip() for part in values.split(";")]
            if len(theirs) != len(others):
                raise LookupError(f"{name}: {setting} has {len(theirs)} values for {len(others)} columns")
            rows.append((f"`{setting}`", md.default_of(fields[setting]), *theirs))
        return md.table(("setting", "default here", *others), rows) + "\n"

    return re.sub(r"^\[peers: (.*)\]\n((?:\w+: .*\n)+)", compared, text, flags=re.MULTILINE)


def logged(name: str) -> Sequence[str]:
    """Return the names of the metrics that an algorithm logs, as its pinned updates have them."""
    keys = json.loads(GOLDEN.read_text(encoding="utf-8"))[f"{name}, terminated"]
    return sorted({found[1] for key in keys if (found := re.match(r"\[1\]\['(\w+)'\]", key))})


def known_metrics() -> dict[str, tuple[str, str]]:
    """Return (meaning, what is healthy) by name, from the table of the algorithms' metrics in docs/metrics.md."""
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", (DOCS / "metrics.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: (meaning, healthy) for name, meaning, healthy in rows}


def metrics(name: str) -> str:
    """Return the table of the metrics that an algorithm logs, next to those of every run."""
    known = known_metrics()
    rows = [(f"`{metric}`", *known[metric]) for metric in logged(name)]
    return (
        md.table(("metric", "meaning", "healthy"), rows)
        + "\n\nThe columns that every run has, such as `episode_return`, are on [Metrics](../metrics.md)."
    )


def _results(name: str) -> str:
    text = published.of_algorithm(name)
    if not [f for f in published.figures_of(algorithm=name) if not f.variant]:
        return text
    said = (
        "Thick lines are greedy evaluation episodes, with the 95% interval of the interquartile mean if there are five "
        "or more seeds. Thin lines are training episodes, dotted lines random play, and dashed lines published returns."
    )
    return f"![Learning curves of {name}](curves/{name}.png)\n\n{said}\n\n{text}"


def home_of(module: str) -> str:
    """Return the algorithm whose page has the reference of a module."""
    names = [n for n, entry in ALGORITHMS.items() if module in (part.partition(":")[0] for part in entry[:2])]
    return next((n for n in names if n.replace("-", "_") == module.rpartition(".")[2]), names[0])


def modules_of(name: str) -> list[str]:
    """Return the modules whose reference is on the page of an algorithm."""
    entry = ALGORITHMS[name]
    modules = dict.fromkeys(path.partition(":")[0] for path in (entry.factory, entry.config))
    return [module for module in modules if home_of(module) == name]


def api(name: str) -> str:
    """Return the lines of the reference: the modules of this page, and links to those on others."""
    entry, own, links = ALGORITHMS[name], modules_of(name), []
    for path, role in ((entry.factory, "func"), (entry.config, "class")):
        module = path.partition(":")[0]
        if module not in own:
            page = home_of(module)
            links.append(f"- {{py:{role}}}`{path.replace(':', '.')}`, on the page of [{page}]({page}.md)")
    shown = [f"[modules: {' '.join(own)}]"] if own else []
    return "\n".join(["## API", *([""] if links else []), *links, "", *shown])


def index() -> str:
    """Return the table of all algorithms."""
    rows = []
    for name, entry in ALGORITHMS.items():
        said = facts(name)
        rows.append(
            (
                f"[{name}]({name}.md)",
                entry.summary,
                "all" if len(entry.actions) == 4 else said["Actions"],
                "yes" if said["Recurrent network"] != "no" else "",
                "replay" if said["Learns from"].startswith("a replay") else "rollout",
                {"made": "teams", "both": "two players", "no": ""}.get(said["Several agents"].split()[0], "groups"),
                "yes" if said["Self-play"] != "no" else "",
                "yes" if "plr" in said["Levels"] else "dr" if said["Levels"] != "no" else "",
                md.linked(entry.source),
            )
        )
    head = ("algorithm", "what it is", "actions", "recurrent", "learns from", "agents", "self-play", "levels", "source")
    return md.table(head, rows)


def old_addresses() -> str:
    """Return a table of the modules that had a section on api/algorithms, with their old anchors."""
    rows = []
    for module in dict.fromkeys(path.partition(":")[0] for entry in ALGORITHMS.values() for path in entry[:2]):
        names = [
            path.partition(":")[2]
            for entry in ALGORITHMS.values()
            for path in entry[:2]
            if path.startswith(f"{module}:")
        ]
        anchors = "".join(f'<span id="{module}.{name}"></span>' for name in dict.fromkeys(names))
        anchors += f'<span id="{module.replace(".", "-").replace("_", "-")}"></span>'
        users = [n for n, entry in ALGORITHMS.items() if module in (part.partition(":")[0] for part in entry[:2])]
        links = ", ".join(f"[{n}](../algorithms/{n}.md)" for n in users)
        rows.append((f"{anchors}`{module}`", links))
    return md.table(("module", "pages"), rows)
