"""What tests of evolutions share."""

import pytest
from click.testing import CliRunner

from purerl.commands.cli import cli
from tests.helpers.evolutions import FLAGS


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """An evolution that ran through."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    result = CliRunner().invoke(cli, ["evolve", "kl", *FLAGS, "--generations", "8", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result.output
