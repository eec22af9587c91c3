"""How many environments fit, and what is refused because it does not."""

import dataclasses

import jax
import pytest

from purerl.devices import memory
from purerl.errors import InputError
from purerl.run import sizing
from purerl.run.plan import make_plan
from purerl.settings.runs import settings

SMALL = {"hidden_sizes": 8, "rollout_length": 8, "total_timesteps": 8 * 70, "devices": 1}
RUN = settings("a2c", "CartPole-v1", {**SMALL, "num_envs": 4})


@pytest.mark.long
def test_the_largest_number_that_fits_is_found(monkeypatch):
    """The memory there is, is a little more than 16 environments take; the update that is tried with them runs."""
    enough = sizing._need(RUN, 16)
    assert sizing._need(RUN, 4) < enough
    monkeypatch.setattr(memory, "free", lambda: enough + 100)
    run, line = sizing.largest(RUN)
    assert run.config.num_envs == 16 and line.startswith("num_envs auto: 16 environments take")
    assert line.endswith("twice as many would not fit; the run is 4 updates")


@pytest.mark.long
def test_the_search_goes_down_again_and_stops_at_one_update(monkeypatch):
    """Programs of 1000 bytes and 10 per environment, but one of 32 turns out to take more."""
    monkeypatch.setattr(sizing, "_need", lambda run, num: 1000 + 10 * num + 9000 * (num == 32))
    monkeypatch.setattr(sizing, "_runs", lambda run, num: True)
    monkeypatch.setattr(memory, "free", lambda: 1500)
    assert sizing.largest(RUN)[0].config.num_envs == 16
    monkeypatch.setattr(memory, "free", lambda: 10**9)
    run, line = sizing.largest(RUN)
    assert run.config.num_envs == 64 and line.endswith("more would be less than one update; the run is a single update")
    monkeypatch.setattr(memory, "free", lambda: 1039)
    with pytest.raises(InputError, match="CartPole-v1 x 4 environments need"):
        sizing.largest(RUN)


@pytest.mark.long
def test_agents_beyond_the_memory_are_refused(monkeypatch):
    """The parameters and both moments of Adam, 4 bytes each, and as much again in an update."""
    planned = make_plan(settings("dqn", "Catch", {"hidden_sizes": (8,), "num_envs": 2, "total_timesteps": 100}))
    agent = planned.shapes.state.agent
    count = sum(x.size for x in jax.tree.leaves(agent.params))
    assert count == (50 * 8 + 8) + (8 * 3 + 3)
    least = 2 * memory.nbytes(agent._replace(replay=()))
    assert least >= 2 * 4 * count * (1 + 1 + 2), "the target's parameters, and Adam's two moments"
    monkeypatch.setattr(memory, "free", lambda: least)
    sizing.check_agents(planned)
    monkeypatch.setattr(memory, "free", lambda: least - 1)
    with pytest.raises(InputError, match=r"parameters and optimizer take .* GB, and an update twice as much"):
        sizing.check_agents(planned)


@pytest.mark.long
def test_observations_beyond_the_memory_are_refused_with_what_avoids_it(monkeypatch):
    """Two agents that see one another, f32[8] each, and who is active: 66 bytes, twice, for 4 x 8 steps."""
    parameters = {"num_taggers": 1, "num_runners": 1, "full_observation": True}
    run = settings("a2c", "TagContinuous", {**SMALL, "num_envs": 4}, parameters)
    planned = make_plan(run)
    monkeypatch.setattr(memory, "free", lambda: 2 * 66 * 32)
    sizing.check(planned)
    monkeypatch.setattr(memory, "free", lambda: 2 * 66 * 32 - 1)
    with pytest.raises(InputError, match=r"twice 66 bytes x 4 environments x 8 steps; .*--env.full_observation false"):
        sizing.check(planned)
    part = make_plan(dataclasses.replace(run, parameters={**parameters, "full_observation": False}))
    monkeypatch.setattr(memory, "free", lambda: 0)
    with pytest.raises(InputError, match=r"--num-envs auto uses as many environments as fit$"):
        sizing.check(part)
