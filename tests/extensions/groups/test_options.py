"""Settings of groups: tables in a file, kept in order, later layers over earlier ones."""

import purerl
from purerl.extensions.groups.options import WORDS, GroupOptions
from purerl.settings.runs import dump, settings


def test_tables_are_written_read_and_merged(tmp_path):
    run = settings("ppo", "CoinGame", {"groups": {"red": {"learning_rate": 0.1, "frozen": True}}})
    assert run.extension_options["groups"] == GroupOptions(
        groups=(("red", (("learning_rate", 0.1), ("frozen", True))),)
    )
    file = tmp_path / "config.toml"
    file.write_text(dump(run, purerl.make("CoinGame")))
    assert "[groups.red]" in file.read_text()
    again = settings(None, None, {"groups": {"red": {"frozen": False}, "blue": {"policy": "red"}}}, {}, file)
    groups = {name: dict(values) for name, values in again.extension_options["groups"].groups}
    assert groups == {"red": {"learning_rate": 0.1, "frozen": False}, "blue": {"policy": "red"}}


def test_words_are_not_fields_of_a_config():
    from purerl.algos.ppo import PPOConfig

    assert not set(WORDS) & set(PPOConfig.__dataclass_fields__)
