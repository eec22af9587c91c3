"""The estimated cost of a run, before it runs."""

import jax
import pytest

from purerl.algos.ppo import ppo
from purerl.envs.bsuite.catch import Catch
from purerl.errors import InputError
from purerl.profiling import explain
from purerl.settings import runs

SMALL = {"hidden_sizes": (8,), "num_envs": 2, "total_timesteps": 10_000}


def test_what_is_larger_than_the_memory_is_not_compiled():
    run = runs.settings("a2c", "Catch", SMALL, {"rows": 10**9})
    with pytest.raises(InputError, match="the observations of a rollout take"):
        explain.explain(run, pytest.fail)


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "more"),
    [("ppo", {"rollout_length": 16, "num_minibatches": 1}), ("dqn", {"replay_capacity": 256, "batch_size": 8})],
)
def test_a_run_explained(algorithm, more, monkeypatch):
    monkeypatch.setattr(explain, "_options", lambda *_: (explain.Option("--seeds 8", 1e6),))  # each is compiled again
    run = runs.settings(algorithm, "CartPole-v1", SMALL | more)
    found = explain.explain(run)
    assert [part.name for part in found.parts] == ["environment", "policy", "learning"]
    assert all(part.operations > 0 for part in found.parts)
    assert found.parts[2].operations > found.parts[1].operations
    per_step = sum(part.seconds for part in found.parts)
    assert found.steps_per_second == pytest.approx(1 / per_step, rel=0.5)  # one machine, moments apart
    assert found.program >= sum(found.agent.values())
    assert found.num_updates == 10_000 // found.steps_per_update
    assert list(found.compilation) == ["start", "update", "evaluation"]
    assert all(0 < took.tracing < took.total for took in found.compilation.values())
    of_parts = sum(part.compile_seconds for part in found.parts)
    assert of_parts >= 0.99 * found.compilation["update"].total and found.parts[0].compile_seconds > 0
    text = "\n".join(explain.lines(run, found))
    assert "compilation   start " in text and text.count(" s of it tracing)") == 3
    assert f"{algorithm} on CartPole-v1: one agent" in text
    assert "--seeds 8" in text
    assert "nan" not in text


@pytest.mark.long
def test_what_no_memory_holds_is_told_in_a_line(monkeypatch):
    def fail(*_):
        raise jax.errors.JaxRuntimeError("INTERNAL: Out of memory allocating 200000000000000 bytes.\nmore")

    monkeypatch.setattr(explain, "_timed_update", fail)
    with pytest.raises(InputError, match=r"ppo on Catch cannot be tried: .*Out of memory allocating \d+ bytes\.$"):
        explain.explain(runs.settings("ppo", "Catch", SMALL))


@pytest.mark.slow
def test_settings_that_are_tried_are_settings():
    run = runs.settings("ppo", "Catch", SMALL | {"rollout_length": 8, "num_minibatches": 2})
    options = explain._options(ppo, Catch(), run.config, 1)
    assert {option.flags for option in options} == {"--num-envs 8", "--num-minibatches 1", "--seeds 8"}
    assert [option.steps_per_second for option in options] == sorted(
        (option.steps_per_second for option in options), reverse=True
    )
