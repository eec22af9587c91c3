"""The heads of Disco's agent: the shapes, and the LSTM against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.networks.prediction_heads import PredictionHeads


def test_an_action_is_one_step_of_an_lstm():
    heads = PredictionHeads(num_actions=3, num_predictions=5, num_atoms=7, model_size=4)
    features = jax.random.normal(jax.random.key(0), (2, 6))
    variables = heads.init(jax.random.key(1), features)
    found = heads.apply(variables, features)
    assert found.policy.shape == (2, 3) and found.y.shape == (2, 5) and found.z.shape == (2, 3, 5)
    assert found.q.shape == (2, 3, 7) and found.next_policy.shape == (2, 3, 3)
    p = jax.tree.map(np.asarray, variables["params"])
    sigmoid = lambda x: 1.0 / (1.0 + np.exp(-x))
    affine = lambda name, x: x @ p[name]["kernel"] + p[name]["bias"]
    cell = affine("Dense_0", features)
    for action in range(3):
        write, new, keep, read = np.split(affine("Dense_1", np.tanh(cell)) + p["actions"][action], 4, axis=-1)
        after = sigmoid(read) * np.tanh(sigmoid(keep + 1.0) * cell + sigmoid(write) * np.tanh(new))
        expected = affine("Dense_5", np.maximum(affine("Dense_4", after), 0.0))
        np.testing.assert_allclose(found.z[:, action], expected, atol=1e-5)
        one = heads.apply(variables, features, jnp.full(2, action))
        for name in ("z", "q", "next_policy"):
            np.testing.assert_allclose(getattr(one, name), getattr(found, name)[:, action], atol=1e-6)
    assert not jnp.allclose(found.z[:, 0], found.z[:, 1])
