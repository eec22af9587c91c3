"""Update rules as data: from a rollout to the targets of a gradient step, instead of a loss.

A rule is a pytree with parameters, `initial_carry() -> state` and `rule(state, inputs) -> (targets, state)`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.types import Array, Key, PyTree, number, pytree, static

EMBEDDED = 16  # units between a prediction and the one number that the rule sees of it


class RuleInputs(NamedTuple):
    """The part of a rollout that a rule reads."""

    reward: Array  # f32[T, B]
    done: Array  # bool[T, B]
    discount: Array  # f32[]
    probability: Array  # f32[T, B], pi(a|s) now
    prediction: Array  # f32[T, B, m], y(s), a distribution
    next_prediction: Array  # f32[T, B, m], y of the next or final observation
    progress: Array  # f32[], how far the agent's life is, 0 .. 1
    lifetime: Array  # f32[], its length in environment steps


class RuleTargets(NamedTuple):
    """The targets of the agent's gradient step."""

    policy: Array  # f32[T, B], the weight of grad log pi(a|s)
    prediction: Array  # f32[T, B, m], what y(s) should be, a distribution


@pytree
class LPG:
    """Learned policy gradient: a GRU that reads a rollout backwards.

    x_t = [r_t, end_t, gamma, pi(a_t|s_t), phi(y(s_t)), phi(y(s_t+1))], and its state gives pi_hat_t and y_hat_t. With
    `temporal` it also sees how far the agent's life is, and how long it will be.

    Source: Oh et al. (2020), "Discovering reinforcement learning algorithms", arXiv:2007.08794; with `temporal` Jackson
    et al. (2024), "Discovering temporally-aware reinforcement learning algorithms", arXiv:2402.05828. Theirs is an LSTM
    of 256 units; this is a GRU.
    """

    weights: Any = number(doc="the weights by layer")
    categories: int = static(default=30, doc="m, categories of a prediction")
    temporal: bool = static(default=False, doc="whether the agent's age is an input")

    @staticmethod
    def create(key: Key, categories: int = 30, units: int = 64, temporal: bool = False) -> "LPG":
        """Sample the weights (LeCun); biases are 0."""
        draw = jax.nn.initializers.lecun_normal()
        keys = jax.random.split(key, 6)
        inputs = 6 + 2 * temporal
        return LPG(
            weights={
                "embed_0": draw(keys[0], (categories, EMBEDDED)),
                "embed_1": draw(keys[1], (EMBEDDED, 1)),
                "input": draw(keys[2], (inputs, 3 * units)),
                "hidden": draw(keys[3], (units, 3 * units)),
                "bias": jnp.zeros(3 * units),
                "policy": draw(keys[4], (units, 1)),
                "prediction": draw(keys[5], (units, categories)),
            },
            categories=categories,
            temporal=temporal,
        )

    def initial_carry(self) -> PyTree:
        """Return the empty state at the start of an agent's life: the rule has no state of its own."""
        return ()

    def __call__(self, state: PyTree, inputs: RuleInputs) -> tuple[RuleTargets, PyTree]:
        """Return (targets, state) for a rollout."""
        w = self.weights
        embed = lambda y: (jax.nn.relu(y @ w["embed_0"]) @ w["embed_1"])[..., 0]
        done = inputs.done.astype(jnp.float32)
        next_embedded = (1.0 - done) * embed(inputs.next_prediction)
        whole = lambda x: jnp.broadcast_to(x, inputs.reward.shape)
        columns = [
            inputs.reward,
            done,
            whole(inputs.discount),
            inputs.probability,
            embed(inputs.prediction),
            next_embedded,
        ]
        if self.temporal:
            columns += [whole(inputs.progress), whole(jnp.log(inputs.lifetime) / 10.0)]
        x = jnp.stack(columns, axis=-1) @ w["input"] + w["bias"]

        def step(carry: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            x, end = now
            carry = carry * (1.0 - end)[:, None]  # nothing flows back over the end of an episode
            reset, keep, new = jnp.split(x, 3, axis=-1)
            carried_reset, carried_keep, carried_new = jnp.split(carry @ w["hidden"], 3, axis=-1)
            new = jnp.tanh(new + jax.nn.sigmoid(reset + carried_reset) * carried_new)
            keep = jax.nn.sigmoid(keep + carried_keep)
            carry = keep * carry + (1.0 - keep) * new
            return carry, carry

        initial_carry = jnp.zeros((inputs.reward.shape[1], w["hidden"].shape[0]))
        _, carries = jax.lax.scan(step, initial_carry, (x, done), reverse=True)
        return RuleTargets((carries @ w["policy"])[..., 0], jax.nn.softmax(carries @ w["prediction"])), state
