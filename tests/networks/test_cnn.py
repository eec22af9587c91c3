"""Convolutional networks: their outputs, in parts and at once, and their published sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.cnn import CNNS, ResidualCNN
from purerl.networks.torsos import apply, init
from purerl.xla import switches


@pytest.mark.long
@pytest.mark.parametrize(("name", "size"), [("mnih2013", 42), ("nature", 45), ("minatar", 10)])
def test_convolutions_see_the_whole_image(key, name, size):
    """Also where a stride does not divide what is left: the score of the last row and column is not zero."""
    net, image = (
        CNNS[name](layer_norm=False, dtype=jnp.float32, initializer="orthogonal"),
        jax.random.uniform(key, (size, size, 2)),
    )
    params = init(net, key, image)
    slope = jax.jit(jax.grad(lambda x: jnp.sum(apply(net, params, x))))(image)
    assert np.all(np.abs(slope[-1]).sum(-1) > 0) and np.all(np.abs(slope[:, -1]).sum(-1) > 0)


@pytest.mark.long
@pytest.mark.parametrize("name", CNNS)
def test_images_in_parts_as_at_once(key, name, monkeypatch):
    """70 images: three parts of 24, the last of which lacks two; for two seeds in parallel."""
    net = CNNS[name](layer_norm=name != "impala", dtype=jnp.float32, initializer="orthogonal")
    images = jax.random.uniform(key, (7, 10, 38, 38, 2))
    params = jax.vmap(lambda seed: init(net, seed, images[0, :1]))(jax.random.split(key))
    loss = lambda params, images: jnp.sum(jnp.sin(apply(net, params, images)))
    found = []
    for on in (True, False):
        monkeypatch.setattr(switches, "is_on", lambda _, on=on: on)
        shapes = jax.eval_shape(lambda p: apply(net, p, images), jax.tree.map(lambda x: x[0], params))
        found.append(jax.jit(jax.vmap(jax.value_and_grad(loss), (0, None)))(params, images))
        assert shapes.shape[:2] == (7, 10)
    close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=5e-3 * float(np.abs(y).max()))
    jax.tree.map(close, *found)


def test_atari_networks_are_as_published(key):
    """An input of 84 pixels needs no padding: 9 x 9 x 32 features in 2013, 7 x 7 x 64 in 2015."""
    image = jnp.zeros((84, 84, 4))
    for name, features in (("mnih2013", 2592), ("nature", 3136)):
        net = CNNS[name](layer_norm=False, dtype=jnp.float32, initializer="orthogonal")
        made = lambda x, net=net: apply(net, init(net, key, x), x)
        assert jax.eval_shape(made, image).shape == (features,)


def test_bytes_are_parts_of_255(key):
    net = CNNS["minatar"](layer_norm=False, dtype=jnp.float32, initializer="orthogonal")
    image = jax.random.randint(key, (10, 10, 2), 0, 256).astype(jnp.uint8)
    params = init(net, key, image)
    np.testing.assert_allclose(
        apply(net, params, image), apply(net, params, image.astype(jnp.float32) / 255), rtol=1e-6
    )


def test_residual_pairs_are_added(key):
    net, image = ResidualCNN(channels=(3,)), jax.random.normal(key, (8, 8, 2))
    params = net.init(key, image)["params"]
    silent = {name: part if name == "Conv_0" else jax.tree.map(jnp.zeros_like, part) for name, part in params.items()}
    assert len(params) == 5 and net.apply({"params": silent}, image).any()
