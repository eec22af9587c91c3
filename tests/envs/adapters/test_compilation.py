"""A vector's programs contain an adapter's reset and step once each, and little more than the suite's own operations.

`python -m benchmarks adapters` shows the seconds that this takes to compile.
"""

import collections

import jax
import pytest

import purerl
from benchmarks.adapters import TASKS, bare_of
from purerl import registry

pytestmark = pytest.mark.suites

NUM_ENVS = 4
IDS = [task for task in TASKS if task[0] != "craftax/Craftax-Symbolic-v1"]
SLOW = {"brax/humanoid", "craftax/Craftax-Classic-Symbolic-v1"}  # tracing takes many seconds


def equations(function, *args):
    """Return how many equations a function's jaxpr has, with those of the jaxprs within."""

    def count(jaxpr):
        inner = (value for equation in jaxpr.eqns for value in equation.params.values())
        parts = (part for value in inner for part in (value if isinstance(value, tuple | list) else (value,)))
        jaxprs = (getattr(part, "jaxpr", part) for part in parts)
        return len(jaxpr.eqns) + sum(count(part) for part in jaxprs if hasattr(part, "eqns"))

    return count(jax.make_jaxpr(function)(*args).jaxpr)


def shapes(vector):
    """Return (key, state, action) of a vector's step, as shapes."""
    key = jax.random.key(0)
    return key, jax.eval_shape(vector.reset, key)[0], jax.eval_shape(vector.sample, key)


@pytest.mark.parametrize("reset_policy", ["prefetch", "always", "pool"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "gymnax/Catch-bsuite", "brax/fast"])
def test_a_step_is_traced_once_and_holds_one_reset(env_id, reset_policy, monkeypatch):
    env, calls = purerl.make(env_id), collections.Counter()
    vector = purerl.vectorize(env, NUM_ENVS, reset_policy, pool_size=8)
    args = shapes(vector)
    for name in ("reset", "step"):

        def counted(self, *args, name=name, function=getattr(type(env), name)):
            calls[name] += 1
            return function(self, *args)

        monkeypatch.setattr(type(env), name, counted)
    jax.clear_caches()
    jax.jit(vector.step).trace(*args)
    assert calls == {"step": 1} | ({} if reset_policy == "pool" else {"reset": 1})
    calls.clear()
    jax.jit(vector.reset).trace(args[0])
    resets = 2 if env_id.startswith("gymnax/") else 1  # a suite whose spaces have the dtypes of a reset
    assert calls == {"reset": resets, "step": 1}, "the step only for what it says of an episode: it is not compiled"


@pytest.mark.parametrize(
    ("env_id", "options"), [pytest.param(*task, marks=[pytest.mark.slow] * (task[0] in SLOW)) for task in IDS]
)
def test_a_program_is_about_as_long_as_the_suites_own(env_id, options, record_property):
    if not registry.installed(suite := env_id.partition("/")[0]):
        pytest.skip(f"{suite} is not installed")
    vector = purerl.vectorize(purerl.make(env_id, **options), NUM_ENVS, "prefetch")
    key, state, action = shapes(vector)
    ours = equations(vector.reset, key), equations(vector.step, key, state, action)
    with jax.numpy_dtype_promotion("standard"):
        bare = bare_of(env_id, options)
        reset, step, keys = jax.vmap(bare.reset), jax.vmap(bare.step), jax.random.split(jax.random.PRNGKey(0), NUM_ENVS)
        suites = jax.eval_shape(reset, keys)[0], jax.eval_shape(jax.vmap(bare.sample), keys)
        theirs = equations(reset, keys), equations(step, keys, *suites)
    leaves = len(jax.tree.leaves(state.env_state))  # an ending chooses between two values of each
    record_property("equations", str((ours, theirs, leaves)))
    assert ours[0] <= 1.1 * theirs[0] + 450 + 4 * leaves
    assert ours[1] <= 1.1 * sum(theirs) + 1000 + 8 * leaves
