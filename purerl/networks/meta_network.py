"""The meta-network of Disco: from an agent's predictions along rollouts to the targets of these predictions.

One LSTM reads each rollout backwards. A second LSTM takes one step per update: its state lasts as long as the agent
and scales what the first one found.
"""

from collections.abc import Mapping
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from purerl.functional import masked
from purerl.functional.q_targets import at_action, with_successors
from purerl.types import Array, Key

PER_STEP = 27  # numbers that the network sees of a step
PER_ACTION = 9  # numbers that it sees of an action
ACTION_FEATURES = 2  # features that it makes of them


class MetaSizes(NamedTuple):
    """The sizes of the layers; the defaults are Disco103's."""

    predictions: int = 600  # categories of y and z
    units: int = 256  # units of the LSTM that reads rollouts
    lifetime_units: int = 128  # units of the LSTM that takes a step per update
    hidden: int = 16  # units of every small layer


class Layer(NamedTuple):
    """An affine layer."""

    kernel: Array  # f32[n, m]
    bias: Array  # f32[m]


Weights = Mapping[str, Layer]


def layer_shapes(sizes: MetaSizes = MetaSizes()) -> dict[str, tuple[int, int]]:
    """Return {layer: (inputs, outputs)}."""
    m, units, lifetime, hidden = sizes.predictions, sizes.units, sizes.lifetime_units, sizes.hidden
    embedding = {
        "y_0": (m, hidden),
        "y_1": (hidden, 1),
        "z_0": (m, hidden),
        "z_1": (hidden, 1),
        "action_0": (2 * PER_ACTION, hidden),
        "action_1": (2 * hidden, ACTION_FEATURES),
    }
    return {
        **embedding,
        "rollout": (PER_STEP + units, 4 * units),
        "scale": (lifetime, units),
        "summary": (units, 1),
        "y": (units, m),
        "z": (units, m),
        "policy_0": (2 * (units + ACTION_FEATURES), hidden),
        "policy_1": (hidden, 1),
        **{f"lifetime_{name}": shape for name, shape in embedding.items()},
        "lifetime_input": (PER_STEP + 2, hidden),
        "lifetime": (hidden + lifetime, 4 * lifetime),
    }


def random_weights(key: Key, sizes: MetaSizes = MetaSizes()) -> dict[str, Layer]:
    """Sample weights (LeCun); biases are 0."""
    draw, shapes = jax.nn.initializers.lecun_normal(), layer_shapes(sizes)
    keys = jax.random.split(key, len(shapes))
    return {
        name: Layer(draw(key, shape), jnp.zeros(shape[1]))
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


class MetaState(NamedTuple):
    """The state of the LSTM that takes one step per update."""

    hidden: Array  # f32[lifetime_units]
    cell: Array  # f32[lifetime_units]

    @staticmethod
    def create(weights: Weights) -> "MetaState":
        """Return the state at the start of an agent's life."""
        units = weights["lifetime"].bias.shape[0] // 4
        return MetaState(jnp.zeros(units), jnp.zeros(units))


class Heads(NamedTuple):
    """An agent's predictions as the network sees them: logits in S = T + K states, of T steps and K successors."""

    policy: Array  # f32[S, B, A]
    y: Array  # f32[S, B, m], of a state
    z: Array  # f32[S, B, A, m], of an action in it


class MetaInputs(NamedTuple):
    """The inputs of the network."""

    action: Array  # i32[T, B]
    reward: Array  # f32[T, B]
    terminated: Array  # bool[T, B]
    done: Array  # bool[T, B]
    mask: Array | None  # bool[T, B], which steps count; None: all
    follows: Array  # i32[K, B], the steps that the K successors follow; T: none
    behavior: Array  # f32[T, B, A], logits of the policy that acted
    agent: Heads
    target: Heads  # heads of the target parameters
    value: Array  # f32[S, B]
    advantage: Array  # f32[T, B]
    standardized_advantage: Array  # f32[T, B]
    q_value: Array  # f32[T, B, A]
    action_advantage: Array  # f32[T, B, A]
    standardized_action_advantage: Array  # f32[T, B, A]


class MetaTargets(NamedTuple):
    """The targets of the agent's predictions, as logits."""

    policy: Array  # f32[T, B, A]
    y: Array  # f32[T, B, m]
    z: Array  # f32[T, B, m], of the action taken


def apply(weights: Weights, state: MetaState, inputs: MetaInputs) -> tuple[MetaTargets, MetaState]:
    """Return the targets of a batch of rollouts, and the state after this update."""
    chex.assert_rank([inputs.reward, inputs.action, inputs.value], 2)
    steps, of_actions = _embed(weights, "", inputs)
    x = _read_backwards(weights["rollout"], steps, inputs.done)
    x = x * _affine(weights["scale"], state.hidden)
    num_actions = of_actions.shape[2]
    repeated = jnp.broadcast_to(x[:, :, None], (*x.shape[:2], num_actions, x.shape[2]))
    policy = _with_mean(weights["policy_0"], jnp.concatenate([repeated, of_actions], axis=-1))
    targets = MetaTargets(
        policy=_affine(weights["policy_1"], policy)[..., 0],
        y=_affine(weights["y"], x),
        z=_affine(weights["z"], x),
    )
    return targets, _live(weights, state, inputs, summary=_affine(weights["summary"], x), y=targets.y)


def _live(weights: Weights, state: MetaState, inputs: MetaInputs, *, summary: Array, y: Array) -> MetaState:
    """Return the state of the agent's life after an update, from the mean over all its steps."""
    steps, _ = _embed(weights, "lifetime_", inputs)
    seen = jnp.concatenate([steps, summary, _number_of(weights, "lifetime_y", y)], axis=-1)
    mean = masked.mean(_affine(weights["lifetime_input"], seen), inputs.mask, axes=(0, 1))
    gates = _affine(weights["lifetime"], jnp.concatenate([mean, state.hidden]))
    return MetaState(*_lstm(gates, state.cell))


def _embed(weights: Weights, prefix: str, inputs: MetaInputs) -> tuple[Array, Array]:
    """Embed the steps, f32[T, B, PER_STEP], and their actions, f32[T, B, A, ACTION_FEATURES]."""
    length, stop = inputs.reward.shape[0], jax.lax.stop_gradient
    taken = lambda x: at_action(x[:length], inputs.action)
    pair = lambda x: [x[:length], with_successors(x[:length], x[length:], inputs.follows)]
    policy, target_policy = (stop(jax.nn.softmax(heads.policy)) for heads in (inputs.agent, inputs.target))
    behavior = stop(jax.nn.softmax(inputs.behavior))
    y, target_y = (_number_of(weights, f"{prefix}y", heads.y)[..., 0] for heads in (inputs.agent, inputs.target))
    z, target_z = (_number_of(weights, f"{prefix}z", heads.z)[..., 0] for heads in (inputs.agent, inputs.target))
    of_action = lambda x: [taken(x), *pair(jnp.sum(policy * x, axis=-1)), *pair(jnp.max(x, axis=-1))]
    action_columns = [
        policy[:length],
        behavior,
        target_policy[:length],
        z[:length],
        target_z[:length],
        stop(_compress(inputs.q_value)),
        stop(_compress(inputs.action_advantage)),
        stop(inputs.standardized_action_advantage),
        jax.nn.one_hot(inputs.action, behavior.shape[-1], dtype=jnp.float32),
    ]
    of_actions = _with_mean(weights[f"{prefix}action_0"], jnp.stack(action_columns, axis=-1))
    of_actions = _with_mean(weights[f"{prefix}action_1"], of_actions)
    columns = [
        taken(policy),
        taken(behavior),
        _compress(inputs.reward),
        1.0 - inputs.terminated.astype(jnp.float32),
        *pair(stop(_compress(inputs.value))),
        stop(_compress(inputs.advantage)),
        stop(inputs.standardized_advantage),
        taken(target_policy),
        *pair(y),
        *pair(target_y),
        *of_action(z),
        *of_action(target_z),
    ]
    per_action = [jnp.mean(of_actions, axis=2), taken(of_actions)]
    return jnp.concatenate([jnp.stack(columns, axis=-1), *per_action], axis=-1), of_actions


def _read_backwards(layer: Layer, x: Array, done: Array) -> Array:
    """Return the hidden state after each step of an LSTM that runs from the last step to the first, f32[T, B, n]."""
    inputs, recurrent = layer.kernel[: x.shape[-1]], layer.kernel[x.shape[-1] :]

    def step(carry: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        gates, over = now
        hidden, cell = jax.tree.map(lambda x: jnp.where(over[:, None], 0.0, x), carry)
        carry = _lstm(gates + hidden @ recurrent, cell)
        return carry, carry[0]

    zeros = jnp.zeros((x.shape[1], recurrent.shape[0]))
    return jax.lax.scan(step, (zeros, zeros), (x @ inputs + layer.bias, done), reverse=True)[1]


def _lstm(gates: Array, cell: Array) -> tuple[Array, Array]:
    """Return (hidden, cell) from gates f32[..., 4 n] and the previous cell."""
    write, new, keep, read = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(keep + 1.0) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
    return jax.nn.sigmoid(read) * jnp.tanh(cell), cell


def _affine(layer: Layer, x: Array) -> Array:
    return x @ layer.kernel + layer.bias


def _number_of(weights: Weights, name: str, logits: Array) -> Array:
    """Return the scalar that the network sees of a prediction, f32[..., m] -> f32[..., 1]."""
    hidden = jax.nn.relu(_affine(weights[f"{name}_0"], jax.nn.softmax(logits)))
    return _affine(weights[f"{name}_1"], hidden)


def _with_mean(layer: Layer, x: Array) -> Array:
    """Apply a layer to each action together with the mean over the actions, f32[T, B, A, n] -> f32[T, B, A, m]."""
    mean = jnp.broadcast_to(jnp.mean(x, axis=2, keepdims=True), x.shape)
    return jax.nn.relu(_affine(layer, jnp.concatenate([x, mean], axis=-1)))


def _compress(x: Array) -> Array:
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))
