"""The one-line descriptions of environments match their docstrings."""

from purerl import agent_groups, make
from purerl.catalog.about_environments import ABOUT
from purerl.catalog.environments import ENVIRONMENTS


def about(name):
    """Return players; observations -> actions; the first clause of the documentation."""
    env = make(name)
    count = sum(agent_groups.sizes(env).values()) or 1
    players = f"{count} player{'' if count == 1 else 's'}"
    doc = type(env).__doc__.strip().splitlines()[0]
    spaces = f"{in_words(env.observation_space)} -> {in_words(env.action_space)}"
    return f"{players}; {spaces}; {doc.split(';')[0].split('. ')[0].rstrip('.')}"


def in_words(space):
    parts = getattr(space, "spaces", None)
    if parts is None:
        return str(space).removeprefix("Box ")
    shown = {name: getattr(part, "space", part) for name, part in sorted(parts.items())}
    return ", ".join(f"{name} {in_words(part)}" for name, part in shown.items() if name not in agent_groups.FLAGS)


def test_each_environment_has_its_line():
    assert {name: about(name) for name in ENVIRONMENTS} == ABOUT
