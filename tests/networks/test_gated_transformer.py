"""The gated transformer: a step by hand, how far it looks back, and that an ending closes what was before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks import gated_transformer
from purerl.networks.gated_transformer import LAYERS, STEPS, GatedTransformer

T, B, N = 6, 2, 8


@pytest.fixture
def cell(key):
    """Return (the cell, parameters that are not those of the start, inputs [T, B, 5])."""
    cell, x = GatedTransformer(N), jax.random.normal(key, (T, B, 5))
    params = cell.init(key, cell.initialize_carry(key, (B, 5)), x[0])["params"]
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    leaves = [leaf + 0.3 * jax.random.normal(k, leaf.shape) for leaf, k in zip(leaves, keys, strict=True)]
    return cell, jax.tree.unflatten(structure, leaves), x


def unroll(cell, params, x, carry=None):
    carry, outputs = cell.initialize_carry(jax.random.key(0), x.shape[1:]) if carry is None else carry, []
    for at in x:
        carry, output = cell.apply({"params": params}, carry, at)
        outputs.append(output)
    return np.array(outputs), carry


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.long
def test_steps_by_hand(cell):
    """All steps of a sequence from its inputs, without a state: attention over what came before."""
    layer, params, x = cell
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)

    def norm(name, y):
        standard = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-6)
        return standard * p[name]["scale"] + p[name]["bias"]

    def gate(name, x, y):
        r, z, h = np.split(y @ p[name]["of_y"]["kernel"], 3, axis=-1)
        r_x, z_x = np.split(x @ p[name]["of_x"]["kernel"], 2, axis=-1)
        r, z = sigmoid(r + r_x), sigmoid(z + z_x - p[name]["bias"])
        return (1 - z) * x + z * np.tanh(h + (r * x) @ p[name]["of_reset"]["kernel"])

    def layer_of(i, xs):
        standard, heads, out = norm(f"norm_{i}_attention", xs), 4, []
        q, k, v = (
            (standard @ p[f"{name}_{i}"]["kernel"]).reshape(T, B, heads, -1) for name in ("query", "key", "value")
        )
        for t in range(T):
            mixed = np.zeros((B, heads, N // heads))
            for b in range(B):
                for h in range(heads):
                    scores = [
                        q[t, b, h] @ k[s, b, h] / np.sqrt(N // heads) + p[f"nearness_{i}"][h, t - s]
                        for s in range(t + 1)
                    ]
                    shares = np.exp(scores - np.max(scores))
                    shares /= shares.sum()
                    mixed[b, h] = sum(share * v[s, b, h] for s, share in enumerate(shares))
            y = gate(f"gate_{i}_attention", xs[t], np.maximum(mixed.reshape(B, N) @ p[f"mix_{i}"]["kernel"], 0))
            wide = np.maximum(norm(f"norm_{i}", y) @ p[f"wide_{i}"]["kernel"] + p[f"wide_{i}"]["bias"], 0)
            made = np.maximum(wide @ p[f"narrow_{i}"]["kernel"] + p[f"narrow_{i}"]["bias"], 0)
            out.append(gate(f"gate_{i}_mlp", y, made))
        return np.array(out)

    xs = np.asarray(x, np.float64) @ p["enter"]["kernel"] + p["enter"]["bias"]
    for i in range(LAYERS):
        xs = layer_of(i, xs)
    np.testing.assert_allclose(unroll(layer, params, x)[0], xs, rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_a_layer_looks_back_so_many_steps_and_no_further(cell, monkeypatch):
    monkeypatch.setattr(gated_transformer, "STEPS", 2)
    layer, _, x = GatedTransformer(N), *cell[1:]
    carry = layer.initialize_carry(jax.random.key(0), (B, 5))
    params = layer.init(jax.random.key(1), carry, x[0])["params"]
    last = lambda x: unroll_sum(layer, params, x)
    slope = np.asarray(jax.grad(last)(jnp.asarray(x)))
    assert np.any(slope[T - 1 - 2 * LAYERS]) and not np.any(slope[: T - 1 - 2 * LAYERS])


def unroll_sum(layer, params, x):
    carry = layer.initialize_carry(jax.random.key(0), x.shape[1:])
    output = jnp.zeros(())
    for t in range(len(x)):
        carry, output = layer.apply({"params": params}, carry, x[t])
    return jnp.sum(output**2)


@pytest.mark.long
def test_the_state_is_all_that_is_known(cell):
    layer, params, x = cell
    whole, _ = unroll(layer, params, x)
    _, carry = unroll(layer, params, x[:3])
    later, _ = unroll(layer, params, x[3:], carry)
    np.testing.assert_allclose(later, whole[3:], rtol=1e-5, atol=1e-6)
    fresh, _ = unroll(layer, params, x[3:])
    assert not np.allclose(fresh, whole[3:])  # the first steps mattered
    assert carry.shape == (B, STEPS * (LAYERS * N + 1)) and carry.dtype == jnp.float32


@pytest.mark.long
def test_at_first_a_layer_passes_on_its_input(key):
    layer = GatedTransformer(N)
    carry = layer.initialize_carry(key, (B, 5))
    x = jax.random.normal(key, (B, 5))
    params = layer.init(key, carry, x)["params"]
    entered = x @ params["enter"]["kernel"] + params["enter"]["bias"]
    _, output = layer.apply({"params": params}, carry, x)
    assert float(jnp.mean(jnp.abs(output - entered))) < 0.5 * float(jnp.mean(jnp.abs(entered)))
