"""Pictures of objectives: the drift and its effect on the gradient, over log-ratio and advantage."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from purerl.functional.drifts import DPO
from purerl.functional.objectives import ActorCriticLoss, Clip, Drifting, Mixture, Objective, ratio_of
from purerl.reporting.plot import literal, new_figure, save
from purerl.reporting.render import save_gif
from purerl.types import Array, PyTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

LOG_RATIO = np.linspace(-1.0, 1.0, 201, dtype=np.float32)  # the ratio goes from 0.37 to 2.7
ADVANTAGE = np.linspace(-3.0, 3.0, 121, dtype=np.float32)
PAUSE = 1.5  # seconds at the end of an animation


class Surface(NamedTuple):
    """An objective on a grid."""

    drift: np.ndarray  # f32[advantages, log_ratios], r A + loss
    slope: (
        np.ndarray
    )  # f32[advantages, log_ratios], d(r A - D)/dr, the gradient with respect to the ratio; A without a drift


def surface(objective: Objective, log_ratio: np.ndarray = LOG_RATIO, advantage: np.ndarray = ADVANTAGE) -> Surface:
    """Evaluate an objective for every pair of log-ratio, f32[n], and advantage, f32[m]."""
    return Surface(*jax.device_get(_surface(objective, jnp.asarray(log_ratio), jnp.asarray(advantage))))


@jax.jit  # one program for all objectives of a kind, such as those of an evolution's frames
def _surface(objective: Objective, log_ratio: Array, advantage: Array) -> tuple[Array, Array]:
    def one(d: Array, a: Array) -> Array:
        return objective(d[None], a[None], {})[0]

    def point(d: Array, a: Array) -> tuple[Array, Array]:
        loss, gradient = jax.value_and_grad(one)(d, a)
        return loss + ratio_of(d) * a, -gradient / jnp.exp(d)

    grid = jax.vmap(jax.vmap(point, (0, None)), (None, 0))
    return grid(log_ratio, advantage)


def objective_of(candidate: PyTree) -> Objective | None:
    """Return the policy objective in a candidate; None for one without it, such as a rule or an optimizer."""
    if isinstance(candidate, ActorCriticLoss):
        return candidate.objective
    if isinstance(candidate, Clip | Drifting | Mixture):
        return candidate
    try:
        shape = jax.eval_shape(lambda d, a: candidate(d, a, {}), *(jax.ShapeDtypeStruct((3,), jnp.float32),) * 2).shape
    except Exception:  # whatever a user's class does with arguments that are not meant for it
        return None
    return candidate if shape == (3,) else None


def draw_heat_maps(objective: Objective, path: Path, title: str = "") -> Path:
    """Write heat maps of a drift, of its effect on the ratio, and of how both differ from PPO's."""
    learned, ppo = surface(objective), surface(Clip())
    panels = [
        ("drift D", learned.drift),
        ("gradient with respect to the ratio, d(r A - D)/dr", learned.slope),
        ("drift minus PPO's", learned.drift - ppo.drift),
        ("gradient minus PPO's", learned.slope - ppo.slope),
    ]
    figure = new_figure(10.5, 7.6)
    for place, (name, values) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        _heat_map(figure, place, values, name)
    figure.suptitle(literal(title))
    save(figure, path)
    return path


def draw_slices(objectives: Mapping[str, Objective], path: Path, title: str = "") -> Path:
    """Write slices at advantages 0.5, 1, 2 and -0.5, -1, -2: the effect of several objectives on the ratio.

    Args:
      objectives: {name: objective}; the first has the strongest line.
      path: where to.
      title: above it.
    """
    figure = new_figure(11, 6.2)
    axes = figure.subplots(2, 3)
    at = np.array([0.5, 1.0, 2.0, -0.5, -1.0, -2.0], np.float32)
    rows = np.abs(ADVANTAGE[:, None] - at).argmin(axis=0)
    found = {name: surface(objective).slope[rows] for name, objective in objectives.items()}
    for i, (place, advantage) in enumerate(zip(axes.reshape(-1), at, strict=True)):
        for j, (name, slope) in enumerate(found.items()):
            width, dashes, color = (1.2, "--", f"C{j - 1}") if j else (2.2, "-", "C3")
            place.plot(np.exp(LOG_RATIO), slope[i], label=literal(name), linewidth=width, linestyle=dashes, color=color)
        place.axhline(0, color="gray", linewidth=0.6)
        place.axvline(1, color="gray", linewidth=0.6)
        place.set_title(f"A = {advantage:g}", fontsize=10)
        place.set_xlabel("ratio r")
        place.grid(alpha=0.25)
        spread = 3.0 * abs(float(advantage))
        place.set_ylim(-spread, spread)
    for place in axes[:, 0]:
        place.set_ylabel("d(r A - D)/dr")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle(literal(title))
    save(figure, path)
    return path


def known_objectives() -> dict[str, Objective]:
    """Return the known objectives that are plotted next to a learned one."""
    return {"PPO": Clip(), "DPO": Drifting(drift=DPO())}


def animate(frames: Sequence[tuple[int, Objective]], path: Path, seconds: float = 6.0) -> Path:
    """Write a GIF of the effect on the ratio over generations, from (generation, objective) pairs."""
    slopes = np.stack([surface(objective).slope[::2, ::2] for _, objective in frames])
    title = "gradient, generation {}".format
    figure = new_figure(5.2, 4.0)
    figure.set_dpi(80)
    axes, canvas, images = figure.add_subplot(), cast(Any, figure.canvas), []
    heat_map = _heat_map(figure, axes, slopes[-1], title(frames[-1][0]), _limit(slopes))
    canvas.draw()
    figure.set_layout_engine("none")  # the other frames keep the places
    for (generation, _), slope in zip(frames, slopes, strict=True):
        heat_map.set_data(slope)
        axes.set_title(literal(title(generation)), fontsize=10)
        canvas.draw()
        images.append(np.array(canvas.buffer_rgba())[..., :3])
    fps = len(images) / seconds
    save_gif([*images, *[images[-1]] * round(PAUSE * fps)], path, fps)
    return path


def draw_fitness(columns: Mapping[str, np.ndarray], path: Path, ylabel: str) -> Path:
    """Write the population's fitness over generations; with several tasks, a curve for each too."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(8, 4.2)
    place, x, mean, spread = figure.add_subplot(), columns["generation"], columns["mean"], columns["spread"]
    place.plot(x, mean, color="C0", label="mean of the population")
    place.fill_between(x, mean - spread, mean + spread, color="C0", alpha=0.15, linewidth=0)
    place.plot(x, columns["best"], color="C2", linewidth=0.8, label="best candidate")
    tasks = [name for name in columns if name.startswith("mean/")]
    for i, name in enumerate(tasks if len(tasks) > 1 else []):
        place.plot(x, columns[name], color=f"C{i + 3}", linewidth=0.9, label=literal(name.removeprefix("mean/")))
    place.set_xlabel("generation")
    place.xaxis.set_major_locator(MaxNLocator(integer=True))
    place.set_ylabel(literal(ylabel))
    place.grid(alpha=0.25)
    place.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, path)
    return path


def _limit(values: np.ndarray) -> float:
    return float(np.nanpercentile(np.abs(values), 98)) or 1.0


def _heat_map(
    figure: "Figure", place: "Axes", values: np.ndarray, name: str, limit: float | None = None
) -> "AxesImage":
    limit = limit or _limit(values)
    extent = (float(LOG_RATIO[0]), float(LOG_RATIO[-1]), float(ADVANTAGE[0]), float(ADVANTAGE[-1]))
    image = place.imshow(
        values,
        origin="lower",
        aspect="auto",
        extent=extent,
        cmap="RdBu_r",
        vmin=-limit,
        vmax=limit,
        interpolation="nearest",
    )
    place.axvline(0, color="black", linewidth=0.5)
    place.axhline(0, color="black", linewidth=0.5)
    place.set_title(literal(name), fontsize=10)
    place.set_xlabel("log-ratio")
    place.set_ylabel("advantage A")
    figure.colorbar(image, ax=place, extend="both")
    return image
