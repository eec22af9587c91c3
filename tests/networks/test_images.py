"""Images whose channels or frames come first, and bytes of other bounds than 0 to 255."""

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.networks.images import as_image, image_shape, is_moved, numbers
from purerl.networks.torsos import Torso, apply, init
from purerl.spaces import Box


def pixels(*shape, dtype=jnp.uint8, high=255):
    return Box(low=0, high=high, shape=shape, dtype=dtype)


@pytest.mark.parametrize(
    ("space", "shape", "moved"),
    [
        (pixels(84, 84, 4), (84, 84, 4), False),
        (pixels(4, 84, 84), (84, 84, 4), True),  # stacked frames, as Gymnasium's wrapper shows them
        (pixels(3, 64, 96), (64, 96, 3), True),
        (pixels(4, 84, 84, 3), (84, 84, 12), True),
        (pixels(4, 3, 84, 84), (84, 84, 12), True),
        (pixels(4, 84, 84, dtype=jnp.float32, high=1), (84, 84, 4), True),
        (pixels(10, 10, 4, dtype=jnp.bool_, high=1), (10, 10, 4), False),
        (pixels(9, 9, 119, dtype=jnp.bool_, high=1), (9, 9, 119), False),
        (pixels(9, 11, 83, dtype=jnp.float32, high=1), (9, 11, 83), False),
        (pixels(2, 3, 4, 5, dtype=jnp.float32, high=1), None, False),
        (pixels(84, 84), None, False),
    ],
)
def test_where_the_channels_are(space, shape, moved):
    assert (image_shape(space), is_moved(space)) == (shape, moved)


@pytest.mark.parametrize(
    ("given", "by_hand"),
    [
        ((4, 12, 20), lambda x: np.transpose(x, (0, 2, 3, 1))),
        ((4, 12, 20, 3), lambda x: np.transpose(x, (0, 2, 3, 1, 4)).reshape(2, 12, 20, 12)),
        ((4, 3, 12, 20), lambda x: np.transpose(x, (0, 3, 4, 1, 2)).reshape(2, 12, 20, 12)),
    ],
)
def test_channels_are_moved_to_the_end(given, by_hand, key):
    x, space = np.random.default_rng(0).integers(0, 256, (2, *given), np.uint8), pixels(*given)
    np.testing.assert_array_equal(as_image(space, jnp.asarray(x)), by_hand(x))
    last = by_hand(x)
    first, moved = Torso(space=space, kind="minatar"), Torso(space=pixels(*last.shape[1:]), kind="minatar")
    params = init(moved, key, jnp.asarray(last))
    np.testing.assert_array_equal(apply(first, params, jnp.asarray(x)), apply(moved, params, jnp.asarray(last)))


@pytest.mark.parametrize("kind", ["mlp", "minatar"])
@pytest.mark.parametrize("high", [1, 10, np.array([1, 10, 255])])
def test_bytes_are_divided_by_their_own_bound(kind, high, key):
    x = jnp.asarray(np.random.default_rng(0).integers(0, np.broadcast_to(high, (2, 5, 5, 3)) + 1, dtype=np.uint8))
    seen, unit = pixels(5, 5, 3, high=high), pixels(5, 5, 3, dtype=jnp.float32, high=1)
    np.testing.assert_allclose(numbers(seen, x), np.asarray(x) / np.float32(high))
    params = init(Torso(space=unit, kind=kind), key, numbers(seen, x))
    expected = apply(Torso(space=unit, kind=kind), params, numbers(seen, x))
    np.testing.assert_array_equal(apply(Torso(space=seen, kind=kind), params, x), expected)
    standardized = x.astype(jnp.float32) - 3
    np.testing.assert_array_equal(numbers(seen, standardized), standardized)
