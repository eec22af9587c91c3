"""The sections of a help page: groups of a command's options, and the environment's own parameters."""

import dataclasses

from purerl.catalog.environments import ENVIRONMENTS
from purerl.errors import InputError, describe, hints
from purerl.settings.values import to_text

SECTIONS = {  # title -> options by name; all others are under "Options"
    "Seeds, evaluation and checkpoints": (
        "seeds",
        "seed",
        "start",
        "evaluations",
        "eval_episodes",
        "checkpoint_interval",
        "keep_checkpoints",
        "keep_best",
        "stop_at_return",
    ),
    "Logging": ("log_interval", "callback", "callbacks", "video_interval", "tensorboard", "wandb", "mlflow"),
    "Devices and processes": (
        "devices",
        "mesh",
        "distributed",
        "coordinator",
        "num_processes",
        "process_index",
        "no_cache",
    ),
}
SECTION_OF = {name: title for title, names in SECTIONS.items() for name in names}


def details(field: dataclasses.Field, hint: object) -> str:
    """Return the kind and the default of a config's or an environment's field for a help page."""
    choices = field.metadata.get("choices")
    kind = " | ".join(str(choice) for choice in choices) if choices else describe(hint)
    default = "" if field.default is dataclasses.MISSING else f"; default {to_text(field.default) or 'none'}"
    return f"[{kind}{default}]"


def metavar(field: dataclasses.Field, hint: object) -> str:
    """Return the placeholder of a field's value: the kind of thing to write."""
    if field.metadata.get("choices"):
        return "NAME"
    words = {"integer": "N", "number": "X", "true or false": "BOOL", "text": "TEXT", "list of integers": "N,N,..."}
    return words.get(describe(hint).removesuffix(" or none"), "VALUE")


def of_environment(name: str) -> list[tuple[str, str]]:
    """Return (flag, help) of each parameter of an environment, by name; none for a suite, which has its own."""
    from purerl import registry

    if name not in ENVIRONMENTS and not registry.is_own(name):
        return []
    try:
        cls = registry.environment_class(name)
    except InputError:
        return []
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        return []
    types = hints(cls)
    return [
        (
            f"--env.{field.name} {metavar(field, types[field.name])}",
            f"{field.metadata.get('doc', '')} {details(field, types[field.name])}".strip(),
        )
        for field in dataclasses.fields(cls)
    ]
