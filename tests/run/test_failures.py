"""Seeds that failed: which, since when, and why."""

import numpy as np

from purerl.run.failures import NAMED, FailedSeeds, cause_text


def test_a_failure_is_reported_once_and_the_others_are_alive():
    failed = FailedSeeds(first_seed=10, num_seeds=3)
    none = np.zeros(4, np.int32)
    assert failed.add(none, none) == [] and failed.alive.tolist() == [0, 1, 2] and not failed.all
    (new,) = failed.add(np.array([0, 5, 0, 0]), np.array([0, 2, 0, 0]))
    assert new == (11, 5, 2)
    assert new.told([]) == "seed 11 failed at update 5: the environment gave a reward that is not finite"
    assert failed.add(np.array([0, 5, 0, 0]), np.array([0, 2, 0, 0])) == []
    assert failed.alive.tolist() == [0, 2] and failed.mask(4).tolist() == [False, True, False, False]
    failed.add(np.array([6, 5, 6, 0]), np.array([1, 2, 3, 0]))
    assert failed.all and failed.alive.size == 0


def test_a_cause_names_the_metric():
    assert cause_text(NAMED + 3, ["entropy", "loss"]).startswith("loss became infinite")
    assert cause_text(NAMED + 2, ["loss", "entropy"]).startswith("loss and the agent's parameters became nan")
    assert cause_text(NAMED, []).startswith("the agent and")
