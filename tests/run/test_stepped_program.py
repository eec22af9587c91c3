"""A run on the host: it is the compiled run to the bit, and which loop a run takes."""

import numpy as np
import pytest

from purerl.envs.bsuite.catch import Catch
from purerl.errors import InputError
from purerl.extensions.host import JaxSource
from purerl.run import opening
from purerl.run.host_program import source_of
from purerl.settings.options import RunOptions
from purerl.settings.runs import settings
from purerl.types import Config
from tests.extensions.host.ledger import Ledger
from tests.helpers.runs import parameters, rows, untimed

FLAGS = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 80, "log_interval": 2}
FLAGS |= {"evaluations": 1, "eval_episodes": 4, "devices": 1}


def test_a_run_on_the_host_is_the_compiled_run(tmp_path):
    """The same rows and parameters; the host's loop also measures itself, and evaluates from starts of its own."""
    for sampler in ("auto", "serial"):
        assert (
            opening.start(settings("a2c", "Catch", FLAGS | {"sampler": sampler}), tmp_path / sampler, plain=True) == 0
        )
    compiled, host = rows(tmp_path / "auto"), rows(tmp_path / "serial")
    for one, other in zip(compiled, host, strict=True):
        assert {"policy_lag"} <= set(other) - set(one)
        for name in set(one) - {"evaluation_return"}:
            value = one[name]
            np.testing.assert_allclose(float(other[name]), float(value), rtol=1e-5, err_msg=name)
    finals = [untimed(tmp_path / name)["final_return"]["per_seed"] for name in ("auto", "serial")]
    assert all(-1 <= final <= 1 for seeds in finals for final in seeds)
    for one, other in zip(*(parameters(tmp_path / name) for name in ("auto", "serial")), strict=True):
        np.testing.assert_allclose(np.frombuffer(one, np.float32), np.frombuffer(other, np.float32), rtol=1e-4)


def test_which_loop_a_run_takes():
    source = lambda env, **options: source_of(env, "it", RunOptions(**options), Config())
    assert source(Catch()) is None, "a JAX environment is compiled"
    assert isinstance(source(Catch(), sampler="serial"), JaxSource)
    ledger = Ledger()
    assert source(ledger) is ledger and source(ledger, sampler="async", actors=3) is ledger


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "asink"}, "sampler is 'asink'; allowed: auto"),
        ({"deterministic": True}, "actors and deterministic are for sampler async alone"),
        ({"step_time_limit": 0.0}, "step_time_limit is 0; it must be above 0 seconds"),
        ({"seeds": 2}, "it runs on the host and cannot be vmapped over 2 seeds"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(InputError, match=message):
        source_of(Ledger(), "it", RunOptions(**options), Config())
