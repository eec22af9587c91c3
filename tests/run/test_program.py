"""A run's programs: failures are found, evaluations have keys of their own, members are cut and filled up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.devices.sharding import make_mesh
from purerl.envs.bsuite.catch import Catch
from purerl.run import failures, program
from purerl.run.plan import make_plan
from purerl.settings.runs import settings

FLAGS = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 80, "seeds": 2}


@pytest.fixture(scope="module")
def plan():
    return make_plan(settings("a2c", "Catch", FLAGS), make_mesh(1))


@pytest.fixture(scope="module")
def begun(plan):
    """Return a run's progress after no update, on the host."""
    return jax.device_get(plan.parts.init(plan.parts.seeds, plan.parts.setup))


@pytest.mark.long
def test_shapes_are_known_before_anything_runs(plan, begun):
    kind = lambda x: (x.shape, x.dtype)
    assert jax.tree.map(kind, begun) == jax.tree.map(kind, plan.shapes)


@pytest.mark.long
def test_lanes_are_cut_and_the_last_is_repeated(begun):
    def of_each(progress):
        return np.asarray(jax.tree.leaves(progress.state.agent.params)[1])

    three = program.resized(begun, 3)
    np.testing.assert_array_equal(of_each(three), of_each(begun)[[0, 1, 1]])
    np.testing.assert_array_equal(of_each(program.resized(three, 1)), of_each(begun)[:1])
    assert three.state.num_updates.shape == ()


def alone(begun):
    """Return the progress of the first seed, without its axis."""
    one = lambda tree: jax.tree.map(lambda x: x[0], tree)
    state = begun.state
    state = one(state._replace(num_updates=()))._replace(num_updates=jnp.int32(1))
    interval = one(begun.interval._replace(updates=()))._replace(updates=begun.interval.updates)
    return program.Progress(state=state, interval=interval, failed_at=one(begun.failed_at), cause=one(begun.cause))


@pytest.mark.long_for("loss", "observation", "reward")
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda state: state, failures.NAMED + 1),
        (lambda state: state._replace(vector=state.vector._replace(episode_return=jnp.array([jnp.inf, 0.0]))), 2),
        (lambda state: state._replace(observation=state.observation.at[0].set(jnp.nan)), 3),
    ],
    ids=["loss", "reward", "observation"],
)
def test_the_first_failure_is_noted_with_its_cause(begun, change, cause):
    progress = alone(jax.tree.map(jnp.asarray, begun))
    sums = progress.interval.algorithm
    good = progress.state.vector.statistics.metrics({name: jnp.float32(1) for name in sums})
    bad = good._replace(algorithm=good.algorithm | {min(sums): jnp.float32(jnp.inf)})
    after = program.account(progress, progress.state, good)
    assert (int(after.failed_at), int(after.cause)) == (0, 0)
    second = change(progress.state)._replace(num_updates=jnp.int32(2))
    failed = program.account(after, second, bad)
    assert (int(failed.failed_at), int(failed.cause)) == (2, cause) and failures.cause_text(cause, sums)
    later = program.account(failed, progress.state._replace(num_updates=jnp.int32(3)), bad)
    assert (int(later.failed_at), int(later.cause)) == (2, cause), "the first one counts"


def test_keys_of_evaluations_differ_from_one_another_and_from_training():
    keys = [program.evaluation_key(*numbers) for numbers in np.ndindex(3, 3, 3)] + [jax.random.key(s) for s in range(3)]
    assert len({tuple(jax.random.key_data(key).tolist()) for key in keys}) == 30


@pytest.mark.long
def test_numbers_too_large_for_int32_are_floats():
    assert program.as_leaf(2**31) == np.float32(2**31) and isinstance(program.as_leaf(2**31), np.float32)
    assert program.as_leaf(2**31 - 1) == 2**31 - 1 and isinstance(program.as_leaf(7), int)
    assert program.as_leaf(True) is True


@pytest.mark.long
def test_a_program_without_a_start(plan):
    compiled = plan.parts.compile(plan.shapes, program.Wanted(training=False))
    with pytest.raises(RuntimeError, match="compiled without init"):
        compiled.init()
    with pytest.raises(KeyboardInterrupt):
        plan.parts.compile(plan.shapes, program.Wanted(interrupted=lambda: True))


@pytest.mark.long
def test_an_environment_is_traced_once_for_each_program_that_steps_it(monkeypatch):
    """The start is traced for the shapes; the training's step for those of its metrics; evaluation has its own."""
    traced = {"reset": 0, "step": 0}
    for name in traced:

        def counting(*args, name=name, original=getattr(Catch, name)):
            traced[name] += 1
            return original(*args)

        monkeypatch.setattr(Catch, name, counting)
    made = make_plan(settings("a2c", "Catch", FLAGS), make_mesh(1))
    before = dict(traced)
    made.parts.compile(made.shapes)
    assert {name: traced[name] - before[name] for name in traced} == {"reset": 1, "step": 1}
    assert max(traced.values()) <= 3
