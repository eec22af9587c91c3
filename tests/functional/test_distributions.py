"""Action distributions against distrax, values and gradients, and against integrals."""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.functional.distributions import (
    Categorical,
    Joint,
    MultiCategorical,
    Normal,
    SquashedNormal,
    action_head,
    kl_parts,
    masked_policy,
)
from purerl.spaces import Box, Dict, Discrete, MultiDiscrete


def same_values_and_gradients(ours, theirs, *inputs):
    """Compare two functions of `inputs`, and the gradients of their weighted sums."""
    with jax.numpy_dtype_promotion("standard"):
        ours, theirs = jax.jit(ours), jax.jit(theirs)
        expected = theirs(*inputs)
        weight = jnp.cos(jnp.arange(expected.size, dtype=jnp.float32)).reshape(expected.shape)
        np.testing.assert_allclose(ours(*inputs), expected, rtol=2e-5, atol=2e-5)
        each = tuple(range(len(inputs)))
        slopes = [jax.jit(jax.grad(lambda *xs, f=f: jnp.sum(weight * f(*xs)), each)) for f in (ours, theirs)]
        for one, other in zip(*(slope(*inputs) for slope in slopes), strict=True):
            assert np.isfinite(one).all()
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


LOGITS = np.concatenate(
    [np.random.default_rng(0).normal(size=(6, 5)) * 3, [[40.0, -40, 0, 0, 0], [-1e9, 2, 1, -1e9, 0]]]
).astype(np.float32)
CHOICES = jnp.array([0, 1, 2, 3, 4, 0, 0, 1], jnp.int32)


@pytest.mark.long
def test_categorical():
    same_values_and_gradients(
        lambda x: Categorical(x).log_prob(CHOICES), lambda x: distrax.Categorical(x).log_prob(CHOICES), LOGITS
    )
    same_values_and_gradients(lambda x: Categorical(x).entropy(), lambda x: distrax.Categorical(x).entropy(), LOGITS)
    np.testing.assert_array_equal(Categorical(jnp.asarray(LOGITS)).mode(), LOGITS.argmax(-1))


def test_categorical_samples_follow_their_probabilities(key):
    logits = jnp.array([0.0, 1.0, -2.0, -1e9])
    samples = Categorical(jnp.broadcast_to(logits, (20_000, 4))).sample(seed=key)
    assert samples.dtype == jnp.int32
    frequency = np.bincount(samples, minlength=4) / 20_000
    np.testing.assert_allclose(frequency, jax.nn.softmax(logits), atol=0.012)
    assert frequency[3] == 0


@pytest.mark.long
def test_multi_categorical_is_a_sum_of_parts():
    parts = [jnp.asarray(LOGITS[:, :2]), jnp.asarray(LOGITS[:, 2:])]
    value = jnp.stack([CHOICES % 2, CHOICES % 3], axis=-1)
    ours = MultiCategorical(tuple(map(Categorical, parts)))
    theirs = [distrax.Categorical(part) for part in parts]
    with jax.numpy_dtype_promotion("standard"):
        log_prob = sum(part.log_prob(value[..., i]) for i, part in enumerate(theirs))
        entropy = sum(part.entropy() for part in theirs)
    np.testing.assert_allclose(ours.log_prob(value), log_prob, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(ours.entropy(), entropy, rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(ours.mode(), np.stack([np.argmax(part, -1) for part in parts], -1))
    sample = ours.sample(seed=jax.random.key(0))
    assert sample.shape == (8, 2) and sample.dtype == jnp.int32


MEAN = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
LOG_STD = np.array([-3.0, 0.0, 1.0], np.float32)
VALUE = np.random.default_rng(2).normal(size=(7, 3)).astype(np.float32)


@pytest.mark.long
def test_normal():
    reference = lambda mean, log_std: distrax.MultivariateNormalDiag(
        mean, jnp.broadcast_to(jnp.exp(log_std), mean.shape)
    )
    same_values_and_gradients(
        lambda m, s, v: Normal(m, s).log_prob(v), lambda m, s, v: reference(m, s).log_prob(v), MEAN, LOG_STD, VALUE
    )
    same_values_and_gradients(
        lambda m, s: Normal(m, s).entropy(), lambda m, s: reference(m, s).entropy() + 0.0 * m[:, 0], MEAN, LOG_STD
    )
    draws = Normal(jnp.full((20_000, 1), 2.0), jnp.array([np.log(0.5)], jnp.float32)).sample(seed=jax.random.key(0))
    np.testing.assert_allclose([draws.mean(), draws.std()], [2.0, 0.5], atol=0.02)


@pytest.mark.long
def test_squashed_normal_has_the_density_of_the_squashed_value():
    def reference(mean, log_std, value):
        normal = distrax.Normal(mean, jnp.broadcast_to(jnp.exp(log_std), mean.shape))
        squashed = distrax.Independent(distrax.Transformed(normal, distrax.Tanh()), 1)
        return squashed.log_prob(jnp.tanh(value))

    same_values_and_gradients(
        lambda m, s, v: SquashedNormal(Normal(m, s)).log_prob(v), reference, MEAN, LOG_STD, 0.5 * VALUE
    )


def test_squashed_normal_far_out_stays_finite():
    """At u = 50 a float32 tanh is exactly 1, and its inverse infinite: log p = log N(50) + 100 - 2 log 2."""
    policy = lambda u: SquashedNormal(Normal(jnp.zeros(1), jnp.zeros(1))).log_prob(u[None])
    value, slope = jax.value_and_grad(policy)(jnp.float32(50.0))
    np.testing.assert_allclose(value, -1250 - 0.5 * np.log(2 * np.pi) + 100 - 2 * np.log(2), rtol=1e-6)
    np.testing.assert_allclose(slope, -50 + 2, rtol=1e-6)


@pytest.mark.parametrize("std", [0.1, 0.5, 1.0, 2.0, 3.0])
def test_squashed_entropy_is_the_integral(std):
    """H = -int p log p over u, with the density of tanh(u), on a fine grid."""
    for mean in (0.0, 0.7, -2.0):
        policy = SquashedNormal(Normal(jnp.array([mean]), jnp.log(jnp.array([std]))))
        u = np.linspace(mean - 8 * std, mean + 8 * std, 20_001)
        density = np.exp(-0.5 * ((u - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
        log_prob = np.log(density) - 2 * (np.log(2) - u - np.logaddexp(0, -2 * u))
        expected = -np.trapezoid(density * log_prob, u)
        np.testing.assert_allclose(policy.entropy(), expected, atol=0.01)


@pytest.mark.long
def test_squashed_entropy_has_a_maximum():
    """A bonus for entropy must not drive the spread to infinity."""
    entropy = lambda log_std: SquashedNormal(Normal(jnp.zeros(1), log_std[None])).entropy()
    slopes = jax.jit(jax.vmap(jax.grad(entropy)))(jnp.log(jnp.array([0.3, 0.6, 1.5, 3.0])))
    assert (slopes[:2] > 0).all() and (slopes[2:] < 0).all()


@pytest.mark.long
def test_divergences():
    """One of choices, and two of normals: their sum is the whole where only one of mean and spread differs."""
    other = LOGITS[::-1] * 0.5
    same_values_and_gradients(
        lambda x, y: Categorical(x).kl_parts(Categorical(y))[0],
        lambda x, y: distrax.Categorical(x).kl_divergence(distrax.Categorical(y)),
        LOGITS[:6],
        other[2:],
    )
    rng = np.random.default_rng(1)
    mean, mean2, log_std, log_std2 = (rng.normal(size=(4, 3)).astype(np.float32) for _ in range(4))
    theirs = lambda m, s: distrax.MultivariateNormalDiag(m, jnp.exp(s))
    for ours in (Normal, lambda m, s: SquashedNormal(Normal(m, s))):
        same_values_and_gradients(
            lambda m, s, m2, ours=ours: ours(m, s).kl_parts(ours(m2, log_std2))[0],
            lambda m, s, m2: theirs(m, s).kl_divergence(theirs(m2, s)),
            *(mean, log_std, mean2),
        )
        same_values_and_gradients(
            lambda m, s, s2, ours=ours: ours(m, s).kl_parts(ours(mean2, s2))[1],
            lambda m, s, s2: theirs(m, s).kl_divergence(theirs(m, s2)),
            *(mean, log_std, log_std2),
        )
    two = lambda x: MultiCategorical((Categorical(x), Categorical(2 * x)))
    parts = [Categorical(k * LOGITS[:2]).kl_parts(Categorical(k * LOGITS[2:4]))[0] for k in (1.0, 2.0)]
    np.testing.assert_allclose(two(LOGITS[:2]).kl_parts(two(LOGITS[2:4]))[0], sum(parts), rtol=1e-5)
    joint = lambda m, x: Joint({"a": Normal(m, jnp.zeros(3)), "b": Categorical(x)})
    found = joint(mean, LOGITS[:4]).kl_parts(joint(mean2, LOGITS[2:6]))
    expected = 0.5 * ((mean - mean2) ** 2).sum(-1) + Categorical(LOGITS[:4]).kl_parts(Categorical(LOGITS[2:6]))[0]
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    np.testing.assert_allclose(found[1], 0.0, atol=1e-7)
    ready_made = distrax.Categorical(LOGITS[:2]), distrax.Categorical(LOGITS[2:4])
    np.testing.assert_allclose(kl_parts(*ready_made)[0], parts[0], rtol=1e-5)


@pytest.mark.long
def test_heads(key):
    box = Box(low=np.array([-2.0, 0.0]), high=np.array([2.0, 1.0]), shape=(2,))
    for space, squash, outputs, free in (
        (Discrete(n=3), False, 3, 0),
        (MultiDiscrete(nvec=(2, 4, 3)), False, 9, 0),
        (box, False, 2, 2),
        (box, True, 2, 2),
    ):
        head = action_head(space, squash)
        assert (head.num_outputs, head.num_log_std) == (outputs, free)
        policy = head.distribution(3 * jax.random.normal(key, (100, outputs)), jnp.ones(free))
        for draw in (policy.sample(seed=key), policy.mode()):
            assert policy.log_prob(draw).shape == (100,)
            assert jax.vmap(space.contains)(head.to_action(draw)).all()
    actions = action_head(box, True).to_action(jnp.array([[-20.0, 20.0], [0.0, 0.0]]))
    np.testing.assert_allclose(actions, [[-2.0, 1.0], [0.0, 0.5]], atol=1e-6)
    np.testing.assert_allclose(action_head(box).to_action(jnp.array([[-20.0, 0.3]])), [[-2.0, 0.65]], rtol=1e-6)


def test_multi_discrete_outputs_are_split_in_order():
    outputs = jnp.array([0.0, 9.0, 0.0, 0.0, 9.0])
    assert action_head(MultiDiscrete(nvec=(2, 3))).distribution(outputs, jnp.zeros(0)).mode().tolist() == [1, 2]


@pytest.mark.long
def test_a_dict_of_actions_is_drawn_part_by_part(key):
    """The joint log-probability and entropy are the sums of the parts'; outputs are shared out by name."""
    box = Box(low=-1.0, high=1.0, shape=(2,))
    inner = Dict(spaces={"z": MultiDiscrete(nvec=(2, 3)), "a": Discrete(n=4)})
    space = Dict(spaces={"move": box, "act": inner, "jump": Discrete(n=2)})
    head = action_head(space)
    assert (head.num_outputs, head.num_log_std) == ((4 + 5) + 2 + 2, 2)
    outputs, free = jax.random.normal(key, (50, 13)), jnp.array([-1.0, 0.5])
    policy = head.distribution(outputs, free)
    parts = {  # act/a, act/z, jump, move: in the order of their names
        "act/a": (Categorical(outputs[:, :4]), lambda v: v["act"]["a"]),
        "act/z": (
            MultiCategorical((Categorical(outputs[:, 4:6]), Categorical(outputs[:, 6:9]))),
            lambda v: v["act"]["z"],
        ),
        "jump": (Categorical(outputs[:, 9:11]), lambda v: v["jump"]),
        "move": (Normal(outputs[:, 11:], free), lambda v: v["move"]),
    }
    np.testing.assert_allclose(policy.entropy(), sum(p.entropy() for p, _ in parts.values()), rtol=1e-5)
    for draw in (policy.sample(seed=key), policy.mode()):
        expected = sum(part.log_prob(pick(draw)) for part, pick in parts.values())
        np.testing.assert_allclose(policy.log_prob(draw), expected, rtol=1e-5)
        assert jax.vmap(space.contains)(head.to_action(draw)).all()
    drawn = policy.sample(seed=key)
    assert not np.array_equal(drawn["act"]["a"] % 2, drawn["jump"]), "each part has a key of its own"


@pytest.mark.parametrize("space", [Dict(spaces={}), Box(low=0, high=3, shape=(1,), dtype=jnp.int32)])
def test_spaces_without_a_distribution(space):
    with pytest.raises(InputError, match="no action distribution"):
        action_head(space)


@pytest.mark.long
def test_a_masked_policy_never_chooses_what_is_illegal(key):
    logits, legal = jnp.zeros((500, 5)), jnp.array([False, True, True, False, True])
    one = masked_policy(Categorical(logits), legal).sample(seed=key)
    assert set(np.unique(one)) == {1, 2, 4}
    several = MultiCategorical((Categorical(logits[:, :3]), Categorical(logits[:, 3:])))
    drawn = masked_policy(several, legal).sample(seed=key)
    assert set(np.unique(drawn[:, 0])) == {1, 2} and set(np.unique(drawn[:, 1])) == {1}


@pytest.mark.long_for("high1", "inf")
@pytest.mark.parametrize("high", [np.inf, np.array([1.0, np.inf])])
def test_squashed_actions_need_bounds(high):
    with pytest.raises(InputError, match="squashed actions need finite bounds"):
        action_head(Box(low=-1.0, high=high, shape=(2,)), squash=True)
