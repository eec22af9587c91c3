"""The kind of device that programs are traced for."""

import ast
import os
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.errors import InputError
from purerl.xla import backend, switches


def test_another_device_is_named_within_a_block_alone():
    here = jax.default_backend()
    assert backend.name() == here
    with backend.traced_for("gpu"):
        assert backend.name() == "gpu"
        with backend.traced_for("tpu"):
            assert backend.name() == "tpu" and backend.compiler_options() is None
        seen = []
        thread = threading.Thread(target=lambda: seen.append(backend.name()))
        thread.start()
        thread.join()
        assert backend.name() == "gpu" and seen == [here], "other threads trace for this machine"
    assert backend.name() == here


def test_loops_become_graphs_on_a_gpu():
    with backend.traced_for("gpu"):
        options = backend.compiler_options()
    assert "WHILE" in options["xla_gpu_enable_command_buffer"]
    with backend.traced_for("gpu"):
        assert backend.compiler_options(graphs=False) is None
    with backend.traced_for("cpu"), switches.off("reductions"):
        assert backend.compiler_options() is None


def test_members_of_members_count():
    half = jnp.zeros(backend.MANY // 2)
    with backend.traced_for("gpu"):
        assert not backend.copies_cost_more(half)
        with backend.side_by_side(2):
            assert not backend.copies_cost_more(half)
            with backend.side_by_side(2):
                assert backend.copies_cost_more({"a": half})
        assert not backend.copies_cost_more(half)
    with backend.side_by_side(100):
        assert backend.name() == "gpu" or not backend.copies_cost_more(half)


def test_sums_of_products_are_right_on_a_cpu():
    def squares(rows):
        return jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2))(rows)

    rows = np.zeros((32_769, 3), np.float32)
    rows[:, 0] = np.arange(len(rows))
    whole, start = backend.compiler_options(), backend.start_options(jax.eval_shape(squares, rows))
    assert whole.items() <= start.items()
    for options in (whole, start):
        np.testing.assert_array_equal(jax.jit(squares, compiler_options=options)(rows), np.square(rows[:, 0]))


def test_reductions_are_not_given_to_a_library():
    def lengths(x):
        return jnp.sum(x * x, axis=-1)

    def library_calls(options):
        compiled = jax.jit(lengths, compiler_options=options).lower(jnp.ones((256, 64, 64, 2))).compile()
        return compiled.as_text().count("ynn")

    with switches.off("reductions"):
        assert library_calls(backend.compiler_options()) > 0
    assert library_calls(backend.compiler_options()) == 0


def test_a_device_that_is_not_here_is_told_in_a_line(monkeypatch):
    def fail():
        raise RuntimeError("Unable to initialize backend 'nonsense'\nand more")

    monkeypatch.setattr(jax, "default_backend", fail)
    with pytest.raises(InputError, match=r"^JAX finds no device: Unable to initialize backend 'nonsense'$"):
        backend.name()


@pytest.mark.long
def test_the_platform_is_asked_for_in_one_package():
    """Other packages ask `shares_host` and the like. To print a device's platform is not to choose by it."""
    root = Path(purerl.__file__).parent
    files = [Path(folder) / name for folder, _, names in os.walk(root, followlinks=True) for name in names]
    asked = {path.relative_to(root).as_posix() for path in files if path.suffix == ".py" and asks(path.read_text())}
    assert {path for path in asked if not path.startswith("xla/")} == set()


def asks(code):
    """Return whether code asks for the default backend, or compares a device's platform."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr == "default_backend":
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "backend.name":
            return True
        if isinstance(node, ast.Compare) and ".platform" in ast.unparse(node).replace("sys.platform", ""):
            return True
    return False


@pytest.mark.long
def test_the_rule_sees_what_it_forbids():
    assert asks("jax.default_backend()") and asks("x = backend.name()") and asks("mesh.devices[0].platform == 'cpu'")
    assert not asks("print(device.platform)") and not asks("sys.platform == 'darwin'") and not asks("backend.jit(f)")


@pytest.mark.long
def test_what_devices_are_good_at():
    here = jax.devices()[0]
    for kind, on_host in (("cpu", True), ("gpu", False), ("tpu", False)):
        with backend.traced_for(kind):
            assert backend.shares_host() is backend.runs_members_in_turn() is backend.branches_are_cheap() is on_host
            assert backend.shares_host(here) is backend.runs_members_in_turn(here) is (here.platform == "cpu")
