"""The committed page of environments is what the registry and the docstrings say."""

import re

import jax.numpy as jnp
import pytest

from purerl.catalog.environments import ENVIRONMENTS, SUITES
from purerl.spaces import Box, Dict, Discrete

pytestmark = pytest.mark.publish


def test_the_page_is_in_line_with_the_registry(script):
    text = script.PAGE.read_text()
    assert text == script.page(*script.read(text)), "run python tools/environments_table.py"
    assert set(script.read(text)[0]) == set(ENVIRONMENTS)
    for suite in SUITES:
        assert f"`{suite}/NAME`" in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (script.PAGE.parent / link).is_file(), link


def test_speeds_survive_a_rewrite(script):
    speeds = dict.fromkeys(ENVIRONMENTS, "12M")
    assert script.read(script.page(speeds, "an abacus.")) == (speeds, "an abacus.")


def test_cells(script):
    assert script.describe(Discrete(n=4)) == "0 .. 3"
    assert script.describe(Box(low=-1.0, high=2.0, shape=(3,))) == "f32[3] in -1 .. 2"
    assert script.describe(Box(low=jnp.array([0.0, -1.0]), high=1.0, shape=(2,))) == "f32[2]"
    picture = Box(low=0, high=1, shape=(10, 10, 4), dtype=jnp.bool_)
    assert script.describe(Dict(spaces={"b": picture, "a": Discrete(n=2)})) == "a: 0 .. 1, b: bool[10, 10, 4]"
    assert [script.short(x) for x in (996_000, 1_234_567, 98_765, 154_000_000)] == ["1M", "1.2M", "99k", "150M"]


def test_docstrings_are_read(script):
    doc = script.paragraph(
        """Reward 1. Best possible return: 1 - `cost`; half of it
        without memory. More.

        Source: Osband et al. (2017), arXiv:1703.07608, as in bsuite, whose rules these are.
        """
    )
    assert script.best_return(doc) == "1 - `cost`; half of it without memory"
    assert script.source(doc) == "Osband et al. (2017), arXiv:1703.07608"
    assert script.best_return("Reward -1 per step.") == "not known"
    assert script.best_return("Channels: a, b. No bound on the return.") == "unbounded"
