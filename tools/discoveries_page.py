"""Writes results/objectives/README.md: what was discovered, and how it compares, from the files of that folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from purerl import stats
from purerl.evolution.meta_evaluate import improvement
from purerl.reporting import metrics_csv
from purerl.reporting.files import write_whole

HEAD = """# Discovered objectives

Each objective below was found by one command. Then it trained new agents, on the tasks of its evolution and on tasks
that it never saw. `python tools/discoveries.py` makes all of it again; it resumes where it was stopped.

All methods share the environment steps and the seeds. Parts of PPO also share its config; a rule, which takes the place
of the whole algorithm, has its own. The score is the mean return over a training run, which rewards fast learning.
*Tuned PPO* has the best of {trials} settings of the learning rate, the clip range and the clip of the value. The search
used {training_runs:,} training runs on the same tasks, about as many as the longest evolution below. It chose a
learning rate of {learning_rate:.2g}, a clip range of {clip_epsilon:.2g}, and {value_clip}.

The objective published is the center of the last population. Sigma is how far the candidates spread around it. A wide
population can score less than its center, so its mean score may fall while the center improves.
"""
FINDINGS = """
## Findings

- **No objective beats the tuned PPO with a probability of 0.9 on unseen tasks.** Two of the
  eight tasks cannot show a difference: no method learns anything on RepeatPrevious, which needs memory, and all score
  the same on DiscountingChain.
- **PPO needs no clip if good actions recover.** Two searches, `lpo` from PPO's clip and `lpo-zero` from no drift, ended
  with the same shape: the drift acts only on good actions (A > 0) that have become less likely, whose gradient it makes
  two to five times as large. Nothing limits the ratio elsewhere. Written down, with l = relu(-log r):
  D = A (a l + b l^2). `recovery` tunes a and b with 720 training runs, 0.03 core-hours, and finds 0.58 and 0.34.
- **Four more searches find the same term.** They are evolutions of `lpo` with another seed, with the worst task as the
  fitness, with longer training runs, and with more generations. All enlarge the gradient of good actions that have
  become less likely, and drop the clip of bad ones. They differ for good actions that have become much more likely: the
  first two keep PPO's clip there, the others drop most of it.
- **Two numbers do what the network does.** `recovery` beats the tuned PPO with a probability of 0.65 and DPO with 0.65,
  as `lpo` (0.67, 0.64) and `lpo-zero` do. On the unseen tasks, all three are about as good as PPO with its defaults. On
  the tasks of their evolution they are better: `recovery` scores 215 on CartPole and 0.70 on Catch, PPO 154 and 0.60.
- **It is this term that matters, not the missing clip.** PPO without a clip fails: 0.43 on GridWorld, where PPO and
  `recovery` score 0.92, and 0.51 on Breakout, where they score 2.4.
- **Tuned settings fit the tasks that they are tuned on.** The tuned PPO is the best on CartPole and Catch. It is worse
  than the default PPO on PositionOnlyCartPole, GridWorld and FourRooms. `dpo`, which was evolved with its learning
  rate, has the same weakness, and so has `actor-critic`, whose entropy weight of -0.036 rewards certainty.
- **A rule can be found from random weights.** `lpg` learns CartPole and leads on FrozenLake (0.20, PPO 0.08), but it
  takes a quarter of PPO's gradient steps per environment step, and hardly learns Catch and MinAtar. After 800
  generations it stopped improving.
- **An optimizer can be found from none.** On CartPole and Catch, `open` learns as fast as Adam with the learning rate
  of all. On most unseen tasks it learns less than PPO with Adam. We have not looked for the reason.
- **A longer search does not help.** None of the four is better than `lpo` on unseen tasks, not even with four times as
  many generations or training runs four times as long (see [What limits LPO](#what-limits-lpo)). The best, which counts
  the worst task, beats the tuned PPO with a probability of 0.69. As two unseen tasks show no difference, 0.875 is about
  the most that a method can reach.
- **The tasks decide what is found.** With BernoulliBandit, TMaze and Asterix among the tasks, the search drops the clip
  without finding the term. Its mean score in the search rises on TMaze (1.3 to 2.6) and FrozenLake (0.07 to 0.20), and
  falls on CartPole (161 to 142). On unseen tasks the result is worse than PPO, like PPO without a clip.
"""
SCORES = """
## Scores

Interquartile means over {seeds} seeds with 95% bootstrap intervals. No evolution saw the tasks below the line.

"""
ABLATIONS = """
## What limits LPO

Evolutions of `lpo` with one change each; `ablations/` has their settings, curves and pictures. The last three columns
are the probabilities that the result improves on PPO, the tuned PPO and `zoo/lpo`, over the unseen tasks.

| change | training runs | core-hours | PPO | tuned PPO | `zoo/lpo` |
|---|---|---|---|---|---|
"""
TRIALS = 40
MOST_ERROR = 50.0  # percent, of a closed form that is shown


def write_page(
    folder: Path, about: Mapping[str, tuple[str, str]], trained: Sequence[str], ablations: Mapping[str, str]
) -> Path:
    """Write the page; return its path.

    Args:
      folder: results/objectives.
      about: by discovery (what is discovered, the command).
      trained: the tasks of the evolutions.
      ablations: by evolution what was changed in that of lpo.
    """
    table = json.loads((folder / "scores.json").read_text())
    scores: dict[str, dict[str, list[float]]] = table["scores"]
    there = [name for name in about if all(name in row for row in scores.values())]
    unseen = [task for task in scores if task not in trained]
    tuned = table["tuned_ppo"] | {"trials": TRIALS}
    parts = [HEAD.format(**tuned, value_clip="a clipped value" if tuned["clips_value"] else "an unclipped value")]
    parts.append(_verdict(there, scores, unseen))
    parts.append(FINDINGS)
    parts.append(_scores(scores, [task for task in trained if task in scores], unseen))
    parts.append(_ablations(folder / "ablations", ablations, scores, unseen))
    parts += [_discovery(folder / name, name, *about[name]) for name in there]
    parts.append(
        f"\n## Costs\n\nTuning PPO took {tuned['cpu_seconds'] / 3600:.2f} core-hours, and the training runs of the "
        f"table took {table['cpu_seconds'] / 3600:.2f}, compilation included.\n"
    )
    write_whole(folder / "README.md", "".join(parts))
    return folder / "README.md"


def _verdict(there: Sequence[str], scores: Mapping[str, Mapping[str, Sequence[float]]], unseen: Sequence[str]) -> str:
    """Return the table of probabilities of improvement on the unseen tasks."""
    rivals = [method for method in _methods(scores) if method not in there]
    lines = ["\n## Probability of improvement on unseen tasks\n"]
    lines.append(
        "\nThe probability that a training run with the objective scores higher than one with the rival. A tie counts "
        f"half. The mean over {len(unseen)} unseen tasks, with 95% intervals:\n\n"
    )
    lines.append(f"| objective | {' | '.join(rivals)} |\n|---|{'---|' * len(rivals)}\n")
    for name in there:
        ours = _of(scores, name, unseen)
        cells = [_better(ours, _of(scores, rival, unseen)) for rival in rivals]
        lines.append(f"| `zoo/{name}` | {' | '.join(cells)} |\n")
    return "".join(lines)


def _of(scores: Mapping[str, Mapping[str, Sequence[float]]], method: str, tasks: Sequence[str]) -> list[np.ndarray]:
    return [np.array(scores[task][method], np.float32) for task in tasks]


def _better(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> str:
    better, (low, high) = improvement(ours, theirs)
    return f"{better:.2f} ({low:.2f} to {high:.2f})"


def _ablations(
    folder: Path,
    ablations: Mapping[str, str],
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    unseen: Sequence[str],
) -> str:
    """Return the table of the evolutions with one change each; nothing where there are none."""
    if not (folder / "scores.json").exists():
        return ""
    theirs = json.loads((folder / "scores.json").read_text())["scores"]
    there = [name for name in ablations if all(name in theirs.get(task, {}) for task in unseen)]
    lines = [ABLATIONS]
    rivals = ("PPO", "tuned PPO", "lpo")
    for name, what, where, table in [
        ("lpo", "none", folder.parent / "lpo", scores),
        *((name, ablations[name], folder / name, theirs) for name in there),
    ]:
        runs, hours = json.loads((where / "summary.json").read_text())["training_runs"], _core_hours(where)
        ours = _of(table, name, unseen)
        cells = [_better(ours, _of(scores, rival, unseen)) if rival != name else "" for rival in rivals]
        lines.append(f"| {what} | {runs:,} | {hours:.2f} | {' | '.join(cells)} |\n")
    return "".join(lines)


def _core_hours(folder: Path) -> float:
    """Return the core-hours of an evolution."""
    return float((folder / "cpu_seconds.txt").read_text()) / 3600


def _scores(scores: Mapping[str, Mapping[str, Sequence[float]]], trained: Sequence[str], unseen: Sequence[str]) -> str:
    known = _methods(scores)
    seeds = len(next(iter(next(iter(scores.values())).values())))
    lines = [SCORES.format(seeds=seeds), f"| task | {' | '.join(known)} |\n|---|{'---|' * len(known)}\n"]
    rows = [*trained, "", *unseen]
    for task in rows:
        if not task:
            lines.append(f"| *unseen:* |{' |' * len(known)}\n")
            continue
        best = max(float(stats.iqm(_known(values))) for values in scores[task].values())
        cells = []
        for method in known:
            values = _known(scores[task][method])
            center = float(stats.iqm(values))
            low, high = stats.bootstrap_interval(jax.random.key(0), values)
            text = f"{center:.3g} ({float(low):.3g} to {float(high):.3g})"
            cells.append(f"**{text}**" if center == best else text)
        lines.append(f"| {task} | {' | '.join(cells)} |\n")
    return "".join(lines)


def _methods(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Return the methods that have a score on every task."""
    first, *others = scores.values()
    return [method for method in first if all(method in row for row in others)]


def _known(values: Sequence[float]) -> np.ndarray:
    """Return scores without NaN: a training run that failed counts as the worst."""
    found = np.array(values, np.float32)
    return np.where(np.isfinite(found), found, np.nanmin(found))


def _discovery(folder: Path, name: str, about: str, command: str) -> str:
    """Return the section of a discovery."""
    summary = json.loads((folder / "summary.json").read_text())
    cost = f", {_core_hours(folder):.2f} core-hours" if (folder / "cpu_seconds.txt").exists() else ""
    lines = [
        f"\n## {name}\n\n{about}\n`--objective zoo/{name}` trains with it.\n\n",
        f"    {_wrapped(command)}\n\n",
        f"{summary['generations']:,} generations, {summary['training_runs']:,} training runs{cost}. "
        "The mean score of the population went from\n"
        f"{summary['mean_first']:.3g} to {summary['mean_last_tenth']:.3g}{_widened(folder)}.\n\n",
        f"![Fitness over generations]({name}/fitness.png)\n",
    ]
    if (folder / "heat_maps.png").exists():
        lines.append(f"\n![Drift, its gradient, and the difference from PPO's]({name}/heat_maps.png)\n")
    if (folder / "closed_form.txt").exists():
        form = (folder / "closed_form.txt").read_text().strip()
        if float(form.rpartition(" ")[2].rstrip("%")) < MOST_ERROR:
            form = form.replace("\n", "\n    ")
            lines.append(f"\nClosed form of its drift:\n\n    {form}\n")
        else:
            lines.append("\nNone of the closed forms that `purerl evolve` knows is close to its drift.\n")
    return "".join(lines)


def _widened(folder: Path) -> str:
    """Return how sigma changed; nothing where it did not."""
    sigma = metrics_csv.read(folder / "generations.csv", needed=()).get("sigma", np.zeros(1))
    first, last = (f"{float(x):.2g}" for x in (sigma[0], sigma[-1]))
    return f", and sigma from {first} to {last}" if first != last else ""


def _wrapped(command: str, width: int = 100) -> str:
    """Return a command over several lines, each ending with a backslash."""
    lines = [""]
    for word in command.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {word}".lstrip() if len(lines) == 1 else f"{lines[-1]} {word}"
    return " \\\n    ".join(lines)
