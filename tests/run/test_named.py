"""Trees as text: what has a name comes back as it was, what has none is told."""

from functools import partial

import jax
import numpy as np
import pytest

from purerl import Uniform, registry
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.evolution.inner_loop import Plug, Task
from purerl.evolution.plan import Redraw
from purerl.evolution.strategies import OpenES
from purerl.functional.drifts import LPO, KLPenalty, valid
from purerl.functional.objectives import Drifting, ratio_of
from purerl.run import named


def drift(log_ratio, advantage, context):
    return log_ratio**2


CASES = {
    "a network": Drifting(drift=LPO.at_ppo(jax.random.key(0), width=4)),
    "a function": valid(drift),
    "a strategy": OpenES(population=8, start_sigma=0.5),
    "a task": Task(
        "x", registry.make("CartPole-v1", gravity=12.0), PPOConfig(), 64, Redraw({"gravity": Uniform(8, 12)})
    ),
    "a plug": Plug(ppo, "objective"),
    "an algorithm with arguments": partial(ppo, objective=KLPenalty(coefficient=0.3)),
    "plain values": {"a": [1, 2.5, None, True], "b": (np.float32(1e-7), "text"), "c": np.arange(3, dtype=np.int32)},
}


@pytest.mark.parametrize("tree", CASES.values(), ids=CASES)
def test_comes_back(tmp_path, tree):
    assert named.write(tmp_path / named.FILE, tree=tree) == ""
    again = named.read(tmp_path / named.FILE)["tree"]
    if isinstance(tree, partial) and not isinstance(tree, jax.tree_util.Partial):
        tree, again = (tree.func, tree.keywords), (again.func, again.keywords)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    for mine, theirs in zip(jax.tree.leaves(again), jax.tree.leaves(tree), strict=True):
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype and np.array_equal(mine, theirs)


@pytest.mark.parametrize("thing", [lambda x: x, partial(dict, objective=lambda *_: 0), {1: ratio_of}])
def test_what_has_no_name(tmp_path, thing):
    why = named.write(tmp_path / named.FILE, thing=thing)
    assert "has no name" in why or "something else" in why
    with pytest.raises(InputError, match="which alone can go on there"):
        named.read(tmp_path / named.FILE)


def test_nothing_is_made_but_what_was_written(tmp_path):
    """A file that names a function as a class does not call it."""
    (tmp_path / named.FILE).write_text('{"tree": {"class": "os:system", "fields": {"command": "true"}}}')
    with pytest.raises(InputError, match="os:system is no dataclass"):
        named.read(tmp_path / named.FILE)
    call = (
        '{"tree": {"partial": "functools:partial", "of": [{"name": "os:system"}, {"tuple": ["true"]}, {"dict": {}}]}}'
    )
    (tmp_path / named.FILE).write_text(call)
    with pytest.raises(InputError, match="takes numbers and arrays from a file, no text"):
        named.read(tmp_path / named.FILE)
    (tmp_path / named.FILE).write_text('{"tree": {"partial": "os:system", "of": [{"name": "os:getcwd"}, ')
    with pytest.raises(InputError, match="cannot read"):
        named.read(tmp_path / named.FILE)
