"""Records are packed into words and unpacked bit-identically."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos.ppo import PPOConfig, ppo
from purerl.xla import backend, packing, switches


@pytest.mark.long
def test_all_types_come_back():
    tree = {
        "flag": jnp.array([True, False, True]),
        "frame": jnp.arange(12, dtype=jnp.uint8).reshape(3, 2, 2),
        "mask": jnp.arange(6).reshape(3, 2) % 2 == 0,
        "action": jnp.array([-1, 5, 2**31 - 1], jnp.int32),
        "small": jnp.array([-7, 0, 127], jnp.int8),
        "number": jnp.array([[1.5, -0.0], [jnp.nan, jnp.inf], [1e-40, 3.0]]),
        "nothing": jnp.zeros((3, 0)),
        "half": jnp.array([[1.5, -0.0, 2.0]] * 3, jnp.bfloat16),
        "half_scalar": jnp.array([1.5, jnp.nan, 2.0], jnp.bfloat16),
    }
    with backend.traced_for("gpu"):
        record, unpack = packing.pack(tree, leading=1)
    assert [x.dtype.itemsize for x in record] == [1, 2, 4]
    found = unpack([jnp.stack([x, x[::-1]]) for x in record])
    for name, want in tree.items():
        assert found[name].dtype == want.dtype
        both = np.stack([np.asarray(want), np.asarray(want)[::-1]])
        assert np.asarray(found[name]).tobytes() == both.tobytes(), name


def test_on_a_cpu_nothing_changes():
    tree = {"a": jnp.ones((2, 3)), "b": jnp.zeros(2, jnp.bool_)}
    record, unpack = packing.pack(tree, leading=1)
    assert record is tree and unpack(record) is tree


@pytest.mark.long
@pytest.mark.parametrize("members", [1, 1 << 20])
def test_training_as_on_a_gpu_is_the_same(key, members):
    """Also with so many members that a loop carries parameters and moments array by array."""
    config = PPOConfig(num_envs=4, rollout_length=16, hidden_sizes=(8,), reset_policy="always")

    def trained(name, members=1):
        with backend.traced_for(name), backend.side_by_side(members):
            trainer = purerl.make_trainer(ppo, purerl.make("CartPole-v1"), config)
            return jax.jit(lambda key: trainer.step(trainer.init(key)))(key)

    ours, theirs = trained("cpu"), trained("gpu", members)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    is_number = lambda x: not jnp.issubdtype(x.dtype, jax.dtypes.extended)
    numbers = lambda tree: [np.asarray(x) for x in jax.tree.leaves(tree) if is_number(x)]
    for one, other in zip(numbers(ours), numbers(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_what_a_loop_carries_comes_back():
    tree = {"w": jnp.arange(6.0).reshape(2, 3), "n": jnp.int32(-7), "b": (jnp.ones(2), jnp.array(True))}
    with backend.traced_for("gpu"):
        packed, unpack = packing.pack(tree, leading=0)
        assert [x.shape for x in packed] == [(10,)]  # the flag takes a word, too
        back = unpack(packed)
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    for x, y in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
    nothing = {"n": jnp.array(True)}
    with backend.traced_for("gpu"):
        assert packing.pack(nothing, leading=0)[1](packing.pack(nothing, leading=0)[0]) == nothing
    with backend.traced_for("cpu"):
        assert packing.pack(tree, leading=0)[0] is tree


@pytest.mark.long
def test_random_keys_stay_apart(key):
    tree = {"key": key, "w": jnp.ones(3)}
    with backend.traced_for("gpu"):
        packed, unpack = packing.pack(tree, leading=0)
        assert len(packed) == 2 and packed[1] is key
        assert unpack(packed)["key"] is key
        with switches.off("packing"):
            assert packing.pack(tree, leading=0)[0] is tree


@pytest.mark.long
def test_parameters_of_many_members_stay_apart():
    tree = {"w": jnp.zeros((64, 64)), "b": jnp.zeros(64)}
    with backend.traced_for("gpu"):
        for members, apart in ((1, False), (1 << 9, False), (1 << 10, True)):
            with backend.side_by_side(members):
                assert (packing.pack(tree, leading=0)[0] is tree) == apart
                assert packing.pack({"w": tree["w"]}, leading=1)[0] != {"w": tree["w"]}, "records are always packed"
