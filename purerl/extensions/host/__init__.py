"""The host loop, for environments that are not written in JAX. The algorithms are the same.

serial       act, step, learn in turn; environments one after another, for debugging
batched      the same, environments side by side in threads or processes
alternating  two half-batches: one steps while the other acts
async        actors collect the next rollouts while the learner learns (Sebulba: Hessel et al. 2021,
             arXiv:2104.06272); each update takes one rollout of each actor, so a replay ratio is exact both ways
inside       a rollout and its update are one compiled program; environments step by their library's XLA interface, or
             by a callback to the host where there is none
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from purerl.extensions.host.jax_source import JaxSource
    from purerl.extensions.host.options import MODES
    from purerl.extensions.host.trainer import HostSettings, HostTrainer, make_host_trainer

__all__ = ["MODES", "HostSettings", "HostTrainer", "JaxSource", "make_host_trainer"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: every command reads the extension's row, few use the host loop."""
    if name in __all__:
        from purerl.extensions.host import jax_source, trainer

        return getattr(jax_source if name == "JaxSource" else trainer, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
