"""Minibatches: every sample once per epoch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.pqn import PQNConfig
from purerl.errors import InputError
from purerl.optim.minibatch import check_minibatches, rollout_minibatches, shuffled_minibatches


@pytest.mark.long
def test_every_sample_once_per_epoch(key):
    batch = {"index": jnp.arange(24), "square": jnp.arange(24) ** 2}

    def step(loop_carry, minibatch):
        count, orders = loop_carry
        assert minibatch["index"].shape == (6,)
        fits = jnp.all(minibatch["square"] == minibatch["index"] ** 2)
        orders = jax.lax.dynamic_update_slice(orders, minibatch["index"], (count * 6,))
        return (count + 1, orders), {"fits": fits.astype(jnp.float32), "count": count.astype(jnp.float32)}

    loop_carry = (jnp.int32(0), jnp.zeros(72, jnp.int32))
    (count, orders), metrics = shuffled_minibatches(
        step, loop_carry, batch=batch, key=key, num_epochs=3, num_minibatches=4
    )
    assert count == 12
    epochs = np.asarray(orders).reshape(3, 24)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(24), (3, 1)))
    assert not (epochs[0] == epochs[1]).all() and not (epochs[0] == np.arange(24)).all()
    assert metrics["fits"] == 1.0 and metrics["count"] == 5.5  # means over the steps


@pytest.mark.long
@pytest.mark.parametrize("sequences", [False, True])
def test_a_rollout_is_cut_into_samples_or_whole_sequences(key, sequences):
    """4 steps of 6 environments in two minibatches: step and environment of what each saw."""
    config = PQNConfig(num_envs=6, rollout_length=4, num_epochs=1, num_minibatches=2)
    time, env = jnp.meshgrid(jnp.arange(4), jnp.arange(6), indexing="ij")
    carry = jnp.arange(6) if sequences else ()

    def step(loop_carry, batch, carry):
        number, seen = loop_carry
        if sequences:
            assert batch["time"].shape == (4, 3)
            fits = jnp.all(batch["env"] == carry) & jnp.all(batch["time"] == jnp.arange(4)[:, None])
        else:
            assert batch["time"].shape == (12,)
            fits = jnp.array(True)
        seen = seen.at[batch["time"], batch["env"]].add(1 + 10 * number)
        return (number + 1, seen), {"fits": fits.astype(jnp.float32)}

    loop_carry = (jnp.int32(0), jnp.zeros((4, 6), jnp.int32))
    batch = {"time": time.astype(jnp.int32), "env": env.astype(jnp.int32)}
    (_, seen), metrics = rollout_minibatches(
        step, loop_carry, batch=batch, carry=carry, key=key, config=config, sequences=sequences
    )
    assert sorted(np.asarray(seen).ravel()) == [1] * 12 + [11] * 12 and metrics["fits"] == 1.0
    assert (np.asarray(seen) == np.asarray(seen)[0]).all() == sequences


@pytest.mark.long
def test_minibatches_that_do_not_divide_are_refused():
    config = PQNConfig(num_envs=6, rollout_length=4, num_minibatches=8)
    check_minibatches(config, False, "pqn")
    with pytest.raises(InputError, match="pqn: num_minibatches 8 does not divide num_envs = 6"):
        check_minibatches(config, True, "pqn")
