"""Dataclasses that are pytrees, and their bounds."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.errors import InputError
from purerl.fields import is_static, number, pytree, static, validate


@pytree
class Settings:
    rate: float = number(default=0.1, doc="a rate", above=0, at_most=1)
    share: float | None = number(default=None, at_least=0, below=1)
    sizes: tuple[int, ...] = static(default=(64, 64), at_least=1, at_most=512)
    kind: str = static(default="tanh", choices=("tanh", "relu"))
    free: float = number(default=0.0)


def test_numbers_are_leaves_and_shapes_are_not():
    assert jax.tree.leaves(Settings(rate=0.5, free=2.0)) == [0.5, 2.0]
    assert jax.tree.structure(Settings(rate=0.5)) == jax.tree.structure(Settings(rate=0.25))
    assert jax.tree.structure(Settings(sizes=(8,))) != jax.tree.structure(Settings())
    assert [f.name for f in dataclasses.fields(Settings) if is_static(f)] == ["sizes", "kind"]


@pytree
class Faster(Settings):
    rate: float = 0.5
    kind: str = "relu"
    free: float = number(default=1.0, doc="declared again")


def test_a_restated_field_keeps_its_declaration():
    old, new = ({field.name: field for field in dataclasses.fields(cls)} for cls in (Settings, Faster))
    assert list(old) == list(new) and Faster() == Faster(rate=0.5, kind="relu", free=1.0)
    for name in ("rate", "kind", "share"):
        assert new[name].metadata == old[name].metadata
    assert new["free"].metadata["doc"] == "declared again" and is_static(new["kind"]) and not is_static(new["rate"])
    with pytest.raises(InputError, match=r"rate is 2\.0; it must be at most 1 and above 0"):
        validate(Faster(rate=2.0), "faster")


def test_frozen_and_by_name_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().rate = 1.0  # type: ignore[misc]
    with pytest.raises(InputError, match=r"Settings takes its fields by name, such as Settings\(rate="):
        Settings(0.1)  # type: ignore[misc]


def test_numbers_may_be_traced_vmapped_and_differentiated():
    f = lambda settings: settings.rate**2 * len(settings.sizes)
    assert jax.grad(f)(Settings(rate=0.5)).rate == 2.0
    many = jax.vmap(lambda rate: f(Settings(rate=rate)))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(many, [2.0, 8.0])


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"rate": 1.0},
        {"share": 0.0},
        {"rate": np.float32(0.3)},
        {"rate": jnp.float32(0.3)},
        {"sizes": (1, 512)},
        {"rate": jnp.array([2.0, 3.0])},  # an axis to vmap over; not looked at
    ],
)
def test_allowed(good):
    validate(Settings(**good), "settings")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"rate": 0.0}, "settings: rate is 0.0; it must be at most 1 and above 0"),
        ({"rate": 1.5}, "settings: rate is 1.5; it must be at most 1 and above 0"),
        ({"rate": float("nan")}, "settings: rate is nan; it must be at most 1 and above 0"),
        ({"rate": "fast"}, "settings: rate is 'fast'; it must be: number"),
        ({"rate": True}, "settings: rate is True; it must be: number"),
        ({"rate": float("inf")}, "settings: rate is inf; it must be at most 1 and above 0"),
        ({"free": float("nan")}, "settings: free is nan; it must be a number"),
        ({"sizes": 64}, "settings: sizes is 64; it must be: list of integers"),
        ({"sizes": (64.0,)}, "settings: sizes is (64.0,); it must be: list of integers"),
        ({"rate": jnp.float32(2)}, "settings: rate is 2.0; it must be at most 1 and above 0"),
        ({"share": -0.1}, "settings: share is -0.1; it must be at least 0 and below 1"),
        ({"share": 1}, "settings: share is 1; it must be at least 0 and below 1"),
        ({"sizes": (64, 0)}, "settings: sizes is 0; it must be at least 1 and at most 512"),
        ({"kind": "tann"}, "settings: kind is 'tann'; allowed: tanh, relu"),
    ],
)
def test_not_allowed(bad, message):
    with pytest.raises(InputError) as caught:
        validate(Settings(**bad), "settings")
    assert str(caught.value) == message


def test_traced_values_are_not_looked_at():
    def f(rate):
        validate(Settings(rate=rate), "settings")
        return rate

    assert jax.jit(f)(7.0) == 7.0


def test_lists_are_taken_for_tuples_where_a_field_is_a_shape():
    assert Settings(sizes=[64, 32]).sizes == (64, 32)
    assert Settings(rate=[1.0]).rate == [1.0], "a leaf may be any tree"


@pytree
class Needs:
    n: int = static(at_least=1)


@pytest.mark.long_for("<lambda>-Needs needs n", "<lambda>-unknown field of Settings 'size': did you mean 'sizes'?")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Settings(rte=1), "unknown field of Settings 'rte': did you mean 'rate'? allowed: "),
        (lambda: dataclasses.replace(Settings(), size=1), "unknown field of Settings 'size': did you mean 'sizes'?"),
        (lambda: Needs(), "Needs needs n"),
    ],
)
def test_wrong_arguments_are_told_in_a_line(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
