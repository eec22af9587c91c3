"""The loop on the host, as an extension: needed by environments that are not written in JAX."""

from typing import Any

from purerl.errors import InputError, unknown
from purerl.fields import number, pytree, static
from purerl.host_environment import HostSource
from purerl.loop.extension import Extension
from purerl.loop.train import MakeTrainer, Trainer
from purerl.types import AlgorithmFactory

AUTO = "auto"  # compiled for a JAX environment, batched for a host one
MODES = ("serial", "batched", "alternating", "async", "inside")


@pytree
class HostOptions:
    """How environments on the host are sampled."""

    sampler: str = static(
        default=AUTO,
        doc="the loop: auto, or on the host serial, batched, alternating, async or inside",
        choices=(AUTO, *MODES),
    )
    actors: int = static(default=2, doc="threads that collect, with sampler async", at_least=1)
    deterministic: bool = static(default=False, doc="sampler async: act with the policy of exactly one update before")
    step_time_limit: float = number(
        default=60.0, doc="longest time for a step of a host environment, in seconds", above=0
    )


def wrap(make: MakeTrainer, options: HostOptions) -> MakeTrainer:
    """Step environments from Python where they are on the host, or where a sampler is chosen."""

    def make_on_host(algorithm: AlgorithmFactory, env: Any, config: Any) -> Trainer:
        check(options)
        on_host = isinstance(env, HostSource)
        if not on_host and options.sampler == AUTO:
            return make(algorithm, env, config)
        from purerl.extensions.host.jax_source import JaxSource
        from purerl.extensions.host.trainer import HostSettings, make_host_trainer

        settings = HostSettings(
            mode="batched" if options.sampler == AUTO else options.sampler,
            num_actors=options.actors,
            deterministic=options.deterministic,
            time_limit=options.step_time_limit,
        )
        source = env if on_host else JaxSource(type(env).__name__, env, config)
        return make_host_trainer(algorithm, source, config, settings)

    return make_on_host


def check(options: HostOptions) -> None:
    """Raise an `InputError` where the options contradict one another."""
    if options.sampler not in (AUTO, *MODES):
        raise unknown("sampler", options.sampler, (AUTO, *MODES))
    if options.sampler != "async" and (options.deterministic or options.actors != 2):
        raise InputError("actors and deterministic need --sampler async")


EXTENSION = Extension(
    name="host",
    options=HostOptions,
    wrap=wrap,
    excludes=("groups", "levels", "planning", "self_play"),
    needed=lambda env, config: f"{env.id} runs on the host" if isinstance(env, HostSource) else "",
)
