"""A run that steps in Python is bit-identical to the compiled run."""

import numpy as np
import pytest

from purerl.errors import InputError
from purerl.run import opening
from purerl.run.plan import make_plan
from purerl.settings.runs import settings
from tests.helpers.runs import parameters, rows, untimed

FLAGS = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 80, "log_interval": 2}
FLAGS |= {"evaluations": 1, "eval_episodes": 4, "devices": 1}


@pytest.mark.long
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


@pytest.mark.long
def test_several_seeds_need_the_compiled_loop():
    with pytest.raises(InputError, match="CartPole-v1 runs on the host and cannot be vmapped over 2 seeds"):
        make_plan(settings("a2c", "CartPole-v1", FLAGS | {"sampler": "serial", "seeds": 2}))
