"""The options of the host loop."""

from purerl.errors import InputError, unknown
from purerl.fields import number, pytree, static

AUTO = "auto"  # compiled for a JAX environment, batched for a host one
MODES = ("serial", "batched", "alternating", "async", "inside")


@pytree
class HostOptions:
    """How host environments are sampled."""

    sampler: str = static(
        default=AUTO,
        doc="loop: auto, or a host loop: serial, batched, alternating, async or inside",
        choices=(AUTO, *MODES),
    )
    actors: int = static(default=2, doc="threads that collect, with sampler async", at_least=1)
    deterministic: bool = static(default=False, doc="sampler async: always act with the policy from one update earlier")
    step_time_limit: float = number(default=60.0, doc="time limit of a step of a host environment, in seconds", above=0)


def check(options: HostOptions) -> None:
    """Raise an `InputError` if the options contradict one another."""
    if options.sampler not in (AUTO, *MODES):
        raise unknown("sampler", options.sampler, (AUTO, *MODES))
    if options.sampler != "async" and (options.deterministic or options.actors != 2):
        raise InputError("actors and deterministic need --sampler async")
