"""The kind of device that programs are traced for."""

import threading

import jax
import pytest

from purerl.errors import InputError
from purerl.xla import backend


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
    with backend.traced_for("cpu"):
        assert backend.compiler_options() is None


def test_a_device_that_is_not_here_is_told_in_a_line(monkeypatch):
    def fail():
        raise RuntimeError("Unable to initialize backend 'nonsense'\nand more")

    monkeypatch.setattr(jax, "default_backend", fail)
    with pytest.raises(InputError, match=r"^JAX finds no device: Unable to initialize backend 'nonsense'$"):
        backend.name()
