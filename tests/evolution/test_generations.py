"""Evolving: the result of a generation, however it is divided, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import purerl
from purerl.devices.sharding import make_mesh
from purerl.errors import InputError
from purerl.evolution import generations
from purerl.evolution.generations import _combine, _wins, make_evolution
from purerl.evolution.inner_loop import Task
from purerl.evolution.method import flatten
from purerl.evolution.strategies import OpenES
from purerl.functional.drifts import DPO, LPO, ClipDrift
from purerl.functional.objectives import Clip, Drifting, Mixture, PolicyGradient
from purerl.loop.train import make_train
from tests.helpers.evolutions import CONFIG, ENV, LEARNER, START, TASK

STRATEGY = OpenES(population=4, start_sigma=0.5)


def generation(**changes):
    """Return (center, fitness) after two generations."""
    evolution = make_evolution(START, LEARNER, [TASK], STRATEGY, **changes)

    @jax.jit
    def run(key):
        state, first = evolution.step(evolution.init(key))
        state, second = evolution.step(state)
        return evolution.center(state), jnp.stack([first.fitness, second.fitness])

    return run(jax.random.key(3))


@pytest.fixture(scope="module")
def once():
    return generation(seeds=2)


@pytest.mark.long
def test_the_first_generation_tells_its_candidates_apart(once):
    center, fitness = once
    assert fitness.shape == (2, 1, 4) and np.isfinite(fitness).all()
    assert np.ptp(fitness[0]) > 0.1
    first, _ = flatten(START)
    assert np.abs(center - first).max() > 1e-3


@pytest.mark.long
def test_a_search_that_collapses_keeps_its_center(monkeypatch):
    """As CMA-ES does where all candidates are equally good: its deviation falls to 0, and its update divides by it."""

    class Collapsing(OpenES):
        def tell(self, state, candidates, fitness):
            return state._replace(mean=state.mean / jnp.std(fitness), generation=state.generation + 1)

    monkeypatch.setattr(generations, "lifetimes", lambda *_, keys, **__: jnp.zeros(keys.shape))
    evolution = make_evolution(START, LEARNER, [TASK], Collapsing(population=4, start_sigma=0.5))
    state = evolution.init(jax.random.key(0))
    after, _ = evolution.step(state)
    np.testing.assert_array_equal(evolution.center(after), evolution.center(state))
    assert int(after.generation) == 1


@pytest.mark.long
def test_chunks_and_devices_change_nothing(once):
    """One by one, three in parallel (and one discarded), on two devices."""
    for changes in ({"chunk": 3}, {"mesh": make_mesh(2)}):
        center, fitness = generation(seeds=2, **changes)
        np.testing.assert_allclose(fitness[0], once[1][0], rtol=1e-4, err_msg=str(changes))
        np.testing.assert_allclose(center, once[0], atol=1e-4, err_msg=str(changes))


def test_wins_by_hand():
    scores = jnp.array([[[1.0, 5.0], [2.0, jnp.nan], [3.0, 4.0], [2.0, 0.0]]])  # pairs (0, 2) and (1, 3)
    np.testing.assert_allclose(_wins(scores), [0.0, -0.5, 0.0, 0.5])


def test_fitness_over_tasks_by_hand():
    shaped = jnp.array([[-1.0, 0.0, 1.0], [2.0, 0.0, -4.0]])
    np.testing.assert_allclose(_combine(shaped, "rank", "mean"), [0.5, 0.0, -1.5])
    np.testing.assert_allclose(_combine(shaped, "rank", "worst"), [0.0, 0.5, -0.5])  # ranks of -1, 0, -4


@pytest.mark.long
def test_weight_decay_pulls_to_the_origin(once):
    """A penalty that outweighs the returns moves every weight of the center toward 0."""
    center, fitness = generation(seeds=2, weight_decay=1e4)
    np.testing.assert_array_equal(fitness[0], once[1][0])
    first, _ = flatten(START)
    step = np.asarray(center - first)
    assert np.dot(step, first) < np.dot(once[0] - first, first) and np.dot(step, first) < 0


LEARNED = jax.tree.map(lambda x: x + 0.3, LPO.at_ppo(jax.random.key(1), 4))


MEMBERS = (Clip(), Drifting(drift=DPO()), Drifting(drift=LEARNED), Drifting(drift=ClipDrift()))


BOLD = dataclasses.replace(
    CONFIG, learning_rate=0.1, learning_rate_schedule="constant", num_epochs=4
)  # the ratio moves


def trained(index):
    """Return all parameters, f32[n], after two updates with one of MEMBERS."""
    train = make_train(LEARNER(Mixture(members=MEMBERS, index=index)), ENV, BOLD, 128)
    return ravel_pytree(train(jax.random.key(0))[0].agent.params)[0]


@pytest.fixture(scope="module")
def alone():
    run = jax.jit(trained)
    return np.stack([run(jnp.int32(i)) for i in range(len(MEMBERS))])


def apart(a, b):
    return np.sqrt(np.mean((a - b) ** 2))


@pytest.mark.long
def test_a_mixed_population_trains_in_one_program(alone):
    """PPO, DPO and LPO members in one vmap: each ends where it does alone, up to rounding, and not where others do."""
    together = np.asarray(jax.jit(jax.vmap(trained))(jnp.arange(len(MEMBERS))))
    for i in range(3):
        others = [apart(alone[i], alone[j]) for j in range(3) if j != i]
        assert apart(together[i], alone[i]) < 0.1 * min(others)


@pytest.mark.long
def test_ppo_as_a_drift_trains_as_ppo(alone):
    """A whole short run: to the bit on the machine this was written on, as the gradients are the same sums."""
    assert apart(alone[0], alone[3]) < 0.01 * apart(alone[0], alone[1])


PENDULUM = Task("Pendulum-v1", purerl.make("Pendulum-v1"), CONFIG, 256)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"strategy": OpenES(population=5)},
            "population is 5; antithetic sampling needs pairs: use 6, or turn it off",
        ),
        ({"candidate": PolicyGradient()}, "PolicyGradient has no parameters to evolve: none of its leaves is a float"),
        (
            {"tasks": [TASK, PENDULUM]},
            r"tasks must have actions of one kind: CartPole-v1 \(Discrete\), Pendulum-v1 \(Box\)",
        ),
        (
            {"tasks": [Task("CoinGame", purerl.make("CoinGame"), CONFIG, 256)]},
            "CoinGame has groups of agents, blue, red; an evolution needs tasks of one agent",
        ),
        ({"tasks": []}, "there is no task to evolve on"),
        ({"candidate": Clip(epsilon=float("nan"))}, "objective Clip has a loss of nan"),
        (
            {"candidate": jax.tree_util.Partial(lambda w, d, a, c: (w * d)[:, None], 1.0)},
            "must return one loss per sample",
        ),
        ({"fitness": "areas"}, "unknown fitness 'areas': .*allowed: auc, final, wins"),
        ({"across_tasks": "best"}, "unknown across_tasks 'best': .*allowed: mean, worst"),
        ({"fitness": "wins", "across_tasks": "worst"}, "'worst' needs fitness 'auc' or 'final'"),
        ({"seeds": 0}, "seeds is 0; it must be at least 1"),
        ({"fitness": "wins", "strategy": OpenES(antithetic=False)}, "it needs antithetic sampling"),
    ],
)
def test_what_is_refused(changes, message):
    settings = {"candidate": START, "learner": LEARNER, "tasks": [TASK], "strategy": STRATEGY} | changes
    with pytest.raises(InputError, match=message):
        make_evolution(**settings)
