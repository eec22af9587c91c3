"""The settings that a run takes from the run that it starts from: those that shape its agent."""

import dataclasses

from purerl.fields import is_static
from purerl.types import Config

AGENT_SETTINGS = frozenset(
    {
        "activation",
        "centralized_critic",
        "critic_hidden_sizes",
        "curiosity",
        "dueling",
        "embedding_size",
        "head_sizes",
        "hidden_sizes",
        "layer_norm",
        "mixing_size",
        "model_size",
        "network",
        "noisy",
        "normalize_observation",
        "normalize_reward",
        "normalize_value",
        "num_atoms",
        "num_critics",
        "num_quantiles",
        "rescale_value",
        "rnn",
        "rnn_size",
        "share_body",
        "squash_actions",
        "v_max",
        "v_min",
    }
)
LOOP_SETTINGS = frozenset({field.name for field in dataclasses.fields(Config)} | {"num_minibatches", "num_epochs"})


def agent_settings(config_class: type) -> set[str]:
    """Return the settings that shape an agent or give its numbers a meaning; for a user's config, all static ones."""
    own = (name for cls in config_class.__mro__ if not cls.__module__.startswith("purerl.") for name in vars(cls))
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    shapes = {name for name in own if name in fields and is_static(fields[name])}
    return {name for name in fields if name in AGENT_SETTINGS or (name in shapes and name not in LOOP_SETTINGS)}
