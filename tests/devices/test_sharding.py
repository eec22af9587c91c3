"""Devices: seeds do not depend on how they are distributed, nor does a run whose environments are."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.devices import selection
from purerl.devices.sharding import _first, make_mesh, pad, place, resize, sharded_vmap, sharding
from purerl.run import program
from purerl.run.plan import make_plan
from purerl.settings.runs import settings
from purerl.xla import backend

TINY = {"num_envs": 4, "rollout_length": 8, "num_minibatches": 2, "num_epochs": 2, "hidden_sizes": (8,)}


FLAGS = TINY | {"total_timesteps": 32 * 10, "normalize_observation": True, "normalize_reward": True}


def advance(seeds, mesh, updates=3):
    """Return (agents, means) after a few updates, on the host, and where the agents are."""
    plan = make_plan(settings("ppo", "CartPole-v1", FLAGS | {"seeds": seeds}, {}), mesh)
    compiled = plan.parts.compile(plan.shapes)
    progress, report = compiled.advance(compiled.init(), updates, True)
    return jax.device_get(progress.state.agent), report.metrics.flat(), progress.state, (plan, compiled)


@pytest.fixture(scope="module")
def spread():
    """Three seeds on two devices: one member too many is computed."""
    return advance(3, make_mesh(2))


def rows(tree, count):
    return [np.asarray(x)[:count] for x in jax.tree.leaves(tree)]


def same(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


def close(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-3, atol=1e-4)


@pytest.mark.long
def test_a_seed_has_the_same_bits_however_many_there_are(spread):
    agent, means, _, _ = advance(2, make_mesh(2))
    same(rows(agent, 2), rows(spread[0], 2))
    same(rows(means, 2), rows(spread[1], 2))
    assert len(spread[1]["value_loss"]) == 3


@pytest.mark.long
def test_one_device_agrees_up_to_rounding(spread):
    agent, means, _, _ = advance(3, make_mesh(1))
    close(rows(agent, 3), rows(spread[0], 3))
    close([means["episode_return"]], [spread[1]["episode_return"]])


@pytest.mark.long
def test_a_saved_run_goes_on_with_other_lanes(spread):
    """A checkpoint with a padding member is padded again when it is resumed."""
    _, _, state, (plan, compiled) = spread
    assert jax.tree.leaves(state.agent)[0].shape[0] == 4
    progress, _ = compiled.advance(compiled.init(), 3, True)
    host = jax.device_get(progress)
    on = plan.parts.placed(program.resized(host, 3))
    further, _ = compiled.advance(on, 2, False)
    straight, _ = compiled.advance(compiled.init(), 5, True)
    same(rows(further.state.agent.params, 3), rows(straight.state.agent.params, 3))


@pytest.mark.long
def test_environments_of_one_run_on_two_devices():
    """The same run as on one device; parameters and statistics are the same everywhere."""
    agent, means, state, _ = advance(1, make_mesh(2, {"data": 2}), updates=2)
    alone, alone_means, _, _ = advance(1, make_mesh(1), updates=2)
    close(rows(agent, 1), rows(alone, 1))
    close([means["value_loss"], means["episode_return"]], [alone_means["value_loss"], alone_means["episode_return"]])
    np.testing.assert_array_equal(agent.observation_statistics.samples, alone.observation_statistics.samples)
    for leaf in jax.tree.leaves(state.agent):
        copies = [np.asarray(shard.data) for shard in leaf.addressable_shards]
        assert len(copies) == 2 and copies[0].shape == leaf.shape
        np.testing.assert_array_equal(*copies)
    observation = state.observation.addressable_shards
    assert [shard.data.shape for shard in observation] == [(1, 2, 4)] * 2, "each device has half of the environments"


@pytest.mark.long
def test_seeds_need_no_communication(spread):
    plan, _ = spread[3]
    lowered = plan.parts.advance.lower(plan.shapes, plan.parts.setup, np.int32(0), np.bool_(True))
    text = lowered.compile().as_text()
    found = [line for line in text.splitlines() if "all-reduce(" in line or "collective-permute(" in line]
    assert "while(" in text and not found  # the means alone are gathered, at the end


def test_gradients_of_split_environments_have_the_right_size():
    """Descending on a mean over samples that two devices share: its gradient against the one written by hand."""
    import optax

    from purerl.devices.sharding import split_data
    from purerl.optim.optimizers import apply_gradients

    mesh = make_mesh(2, {"data": 2})
    x = np.arange(8.0, dtype=np.float32)

    def step(weight, x):
        gradient = jax.grad(lambda w: jnp.mean((w * split_data(x)) ** 2))(weight)
        return apply_gradients(optax.sgd(1.0), gradient, optax.sgd(1.0).init(weight), weight)[0]

    stepped = jax.jit(sharded_vmap(step, mesh, in_axes=(0, 0)))(jnp.array([0.5]), x[None])
    np.testing.assert_allclose(stepped, 0.5 - np.mean(2 * 0.5 * x**2), rtol=1e-6)


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("in_place", [True, False])
def test_lanes_are_a_vmap(in_turn, in_place):
    """With shared and own arguments and results, of several shapes, typed keys among them."""
    mesh = make_mesh(2)

    def function(own, shared, key):
        drawn = jax.random.normal(key, own["x"].shape)
        return {"x": own["x"] + drawn * shared, "n": own["n"] + 1}, {"mean": jnp.mean(own["x"]), "count": shared * 2}

    axes, more = {"x": 0, "n": None}, {"mean": 0, "count": None}
    own = {"x": jnp.arange(12.0).reshape(4, 3), "n": jnp.int32(5)}
    args = (own, jnp.float32(2), jax.random.split(jax.random.key(0), 4))
    expected = jax.vmap(function, (axes, None, 0), (axes, more))(*args)
    mapped = sharded_vmap(function, mesh, "seed", (axes, None, 0), (axes, more), in_place=in_place, in_turn=in_turn)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), jax.jit(mapped)(*args), expected)


def test_meshes():
    assert dict(make_mesh(2).shape) == {"trial": 1, "seed": 2, "data": 1}
    assert dict(make_mesh(axes={"trial": 2}).shape) == {"trial": 2, "seed": 1, "data": 1}
    assert [pad(count, make_mesh(2), "seed") for count in (1, 2, 3, 4)] == [2, 2, 4, 4]
    placed = place({"a": np.zeros((2, 3)), "key": jax.random.split(jax.random.key(0), 2)}, make_mesh(2), "seed")
    assert placed["a"].sharding == sharding(make_mesh(2), "seed")
    same([jax.random.key_data(placed["key"])], [jax.random.key_data(jax.random.split(jax.random.key(0), 2))])
    assert selection.split(4, 8) == {"seed": 4, "data": 1}
    assert selection.split(4, 3) == {"seed": 2, "data": 2}
    assert selection.split(2, 1) == {"seed": 1, "data": 2}
    assert dict(selection.choose("auto", (), 5, 4).shape) == {"trial": 1, "seed": 2, "data": 1}
    assert dict(selection.choose("auto", (), 1, 4).shape) == {"trial": 1, "seed": 1, "data": 1}
    assert dict(selection.choose("auto", ("data=2",), 1, 4).shape) == {"trial": 1, "seed": 1, "data": 2}


def test_shapes_have_as_many_members_as_a_file_says_and_no_arrays_are_made():
    tree = {"own": jax.ShapeDtypeStruct((2, 3), jnp.float32), "shared": jax.ShapeDtypeStruct((), jnp.int32)}
    found = resize(tree, {"own": 0, "shared": None}, 2**60)
    assert found["own"].shape == (2**60, 3) and found["shared"] is tree["shared"]


def test_members_side_by_side_are_counted():
    seen = []

    def member(x):
        seen.append(backend.copies_cost_more(jnp.zeros(backend.MANY // 3)))
        return x

    with backend.traced_for("gpu"):
        jax.eval_shape(sharded_vmap(member, make_mesh(2), in_turn=False), jnp.zeros(8))  # four on each of two devices
        jax.eval_shape(sharded_vmap(member, make_mesh(2), in_turn=False), jnp.zeros(6))
        jax.eval_shape(sharded_vmap(member, make_mesh(2), in_turn=True), jnp.zeros(8))
    assert seen[0] and not any(seen[1:])


@pytest.mark.parametrize("in_turn", [True, False])
def test_arrays_without_elements_go_through(in_turn):
    """What enters without elements and is used ended the process of jaxlib 0.11.2 on two devices or more."""

    def member(x, nothing):
        return jnp.concatenate([x, nothing]), nothing + 1

    mapped = jax.jit(sharded_vmap(member, make_mesh(2), in_turn=in_turn))
    x, nothing = mapped(jnp.arange(8.0).reshape(4, 2), jnp.zeros((4, 0)))
    np.testing.assert_array_equal(x, np.arange(8.0).reshape(4, 2))
    assert nothing.shape == (4, 0)


@pytest.mark.parametrize(("count", "chosen"), [(2, [0, 4]), (4, [0, 1, 4, 5]), (8, list(range(8))), (3, [0, 1, 2])])
def test_devices_are_taken_from_all_processes_alike(count, chosen):
    """Two processes have four devices each; three cannot be shared equally."""
    devices = [SimpleNamespace(process_index=i // 4, id=i) for i in range(8)]
    assert [device.id for device in _first(devices, count)] == chosen
