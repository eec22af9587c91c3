"""Record episodes of bsuite's own environments, with random actions, for tests/envs/bsuite.

  uv run --no-project --with bsuite==0.3.6 python tests/golden/make_bsuite.py

Only bsuite.environments is imported, not the package around it. Random numbers that decide a transition are recorded
with it, so that they can be injected.
"""

import importlib.util
import pathlib
import sys
import types

import numpy as np

package = types.ModuleType("bsuite")
package.__path__ = importlib.util.find_spec("bsuite").submodule_search_locations
sys.modules["bsuite"] = package

from bsuite.environments import (  # noqa: E402
    bandit,
    catch,
    deep_sea,
    discounting_chain,
    memory_chain,
    umbrella_chain,
)


def play(env, episodes, hidden, rng):
    """Return arrays over all steps; `hidden` reads what the start of an episode has drawn."""
    rows = {"hidden": [], "first": [], "action": [], "observation": [], "reward": [], "last": []}
    for _ in range(episodes):
        start = env.reset()
        drawn, first = np.array(hidden(env)), start.observation.reshape(-1)
        step = start
        while not step.last():
            action = int(rng.integers(env.action_spec().num_values))
            step = env.step(action)
            values = (drawn, first, action, step.observation.reshape(-1), step.reward, step.last())
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    return {name: np.array(value) for name, value in rows.items()}


def main():
    """Write tests/golden/bsuite.npz."""
    rng = np.random.default_rng(0)
    tasks = {
        "catch": (catch.Catch(seed=0), 60, lambda e: e._ball_x),
        "deep_sea": (deep_sea.DeepSea(10, mapping_seed=3), 100, lambda e: e._action_mapping.reshape(-1)),
        "discounting_chain": (discounting_chain.DiscountingChain(mapping_seed=2), 12, lambda e: e._rewards),
        "umbrella_chain": (umbrella_chain.UmbrellaChain(20, 3, seed=0), 40, lambda e: e._need_umbrella),
        "memory_chain": (memory_chain.MemoryChain(7, 3, seed=0), 60, lambda e: [*e._context, e._query]),
        "simple_bandit": (bandit.SimpleBandit(mapping_seed=0), 60, lambda e: e._rewards),
    }
    arrays = {}
    for name, (env, episodes, hidden) in tasks.items():
        arrays |= {f"{name}/{field}": value for field, value in play(env, episodes, hidden, rng).items()}
    np.savez_compressed(pathlib.Path(__file__).with_name("bsuite.npz"), **arrays)


if __name__ == "__main__":
    main()
