"""The parts of an update, measured separately."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks.bounds import Screens, parts, products_alone
from purerl.algos.ppo import PPOConfig, ppo
from purerl.profiling.flops import each_product

pytestmark = pytest.mark.publish


def test_a_product_alone_is_computed_as_often_as_in_the_program():
    program = lambda x: jax.lax.scan(lambda x, _: (x @ x, None), x, None, 3)[0]
    calls = products_alone(each_product(program, jnp.ones((2, 2))))()
    (first, product) = calls[0]
    # operands are ones; the first operand's first entry grows by that of the product before: 0, then 1 + 1, then 3 + 1
    assert first[0, 0] == 1 + 0 + 2 + 4 and product.shape == (2, 2)


def test_parts_of_an_update_on_black_frames():
    config = PPOConfig(num_envs=2, rollout_length=4, num_minibatches=2, network="minatar", hidden_sizes=(8,))
    found = {name: share for name, _, share in parts(ppo, Screens(), config, runs=1)}
    assert found.pop("an update") == 1.0
    assert set(found) == {"the environment, constant actions", "matrix products"} and min(found.values()) > 0
