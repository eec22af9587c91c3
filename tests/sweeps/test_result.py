"""A sweep's curves and results."""

import numpy as np

from purerl.sweeps.result import Curves


def test_curves_judge_by_the_last_tenth():
    curves = Curves.empty(np.tile(np.arange(1, 21) * 10, (2, 1)), 2)
    curves.trained[:] = 20, 5
    curves.episode_return[0, 0] = np.arange(20)
    curves.episode_return[0, 1, :15] = np.arange(15)  # no episode ended since
    curves.episode_return[1, :, :5] = [[1, 2, 3, 4, 5], [np.nan] * 5]
    np.testing.assert_array_equal(curves.final_return(), [[18.5, 14], [5, np.nan]])
    np.testing.assert_array_equal(curves.final_return(10), [[9, 9], [5, np.nan]])
    curves.failed[0, 1] = True
    np.testing.assert_array_equal(curves.final_return()[0], [18.5, np.nan])
