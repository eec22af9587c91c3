"""The host loop as an extension: needed for environments that are not written in JAX."""

from purerl.extensions.host.options import AUTO, HostOptions, check
from purerl.host_environment import HostSource
from purerl.loop.extension import Extension
from purerl.loop.trainer import MakeTrainer, Trainer
from purerl.types import AlgorithmFactory, Config, Environment


def wrap(make: MakeTrainer, options: HostOptions) -> MakeTrainer:
    """Wrap a maker of trainers: step environments from Python if they run on the host or a sampler is chosen."""

    def make_on_host(algorithm: AlgorithmFactory, env: Environment, config: Config) -> Trainer:
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


EXTENSION = Extension(
    name="host",
    options=HostOptions,
    wrap=wrap,
    excludes=("groups", "levels", "planning", "self_play"),
    needed=lambda env, config: f"{env.id} runs on the host" if isinstance(env, HostSource) else "",
)
