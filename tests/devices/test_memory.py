"""The memory that a compiled program needs."""

import jax
import numpy as np
import pytest

from purerl.devices import memory
from purerl.devices.sharding import make_mesh, place
from purerl.sweeps import chunks


def test_memory_of_a_program():
    """A product of two matrices needs at least these and its result; a chunk on a CPU is not larger than it serves."""
    shape = jax.ShapeDtypeStruct((256, 256), np.float32)
    compiled = jax.jit(lambda x, y: x @ y).lower(shape, shape).compile()
    assert 3 * 256 * 256 * 4 <= memory.needed(compiled) < 10 * 256 * 256 * 4
    assert 2**20 < memory.free() < 2**45
    assert chunks.MEMBERS >= 8


def test_devices_of_a_cpu_share_its_memory():
    """The same program on two devices needs twice as much; what is there already counts as free."""
    sizes = []
    for count in (1, 2):
        x = place(np.zeros((count * 1024, 1024), np.float32), make_mesh(count, {"data": count}), "data")
        sizes.append(memory.needed(jax.jit(lambda x: x + 1).lower(x).compile()))
    assert sizes == [2 * 1024 * 1024 * 4, 4 * 1024 * 1024 * 4]
    held = place(np.zeros((1024, 1024, 64), np.float32), make_mesh(2), None)
    assert memory.free({"held": held, "host": np.zeros(3)}) > memory.free() + memory.SHARE * 1.5 * held.nbytes


GB = 10**9
STAT = "anon 1\ninactive_file {}\ntotal_inactive_file {}\n"


def machine(root, available, cgroup, **groups):
    """Write the files of a machine: what is free, what /proc/self/cgroup says, and {folder: (limit, used, files)}."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {available // 1024} kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, (limit, used, files) in groups.items():
        folder = root / "sys/fs/cgroup" / name.replace("__", "/")
        folder.mkdir(parents=True, exist_ok=True)
        one = "memory" in name.split("__")
        (folder / ("memory.limit_in_bytes" if one else "memory.max")).write_text(f"{limit}\n")
        (folder / ("memory.usage_in_bytes" if one else "memory.current")).write_text(f"{used}\n")
        (folder / "memory.stat").write_text(STAT.format(files, files))
    return root


V1 = 2**63 - 4096  # no limit, as version 1 writes it


@pytest.mark.parametrize(
    ("available", "cgroup", "groups", "free"),
    [
        (8 * GB, "0::/\n", {}, 8 * GB),
        (8 * GB, "0::/a/job\n", {"a__job": (2 * GB, GB // 2, 0)}, 1.5 * GB),
        (8 * GB, "0::/a/job\n", {"a__job": ("max", GB, 0), "a": (3 * GB, GB, 0)}, 2 * GB),
        (8 * GB, "0::/a\n", {"a": (2 * GB, 2 * GB, GB)}, GB),  # half of it is files that may be forgotten
        (8 * GB, "0::/a\n", {"a": (2 * GB, 3 * GB, 0)}, 0),
        (8 * GB, "0::/\n", {".": (2 * GB, GB, 0)}, GB),
        (8 * GB, "4:memory:/slurm/job_7\n0::/\n", {"memory__slurm__job_7": (4 * GB, GB, 0)}, 3 * GB),
        (8 * GB, "4:cpu,memory:/docker/x\n", {"memory": (2 * GB, GB, 0)}, GB),  # the container's own group
        (8 * GB, "4:memory:/\n", {"memory": (V1, GB, 0)}, 8 * GB),
        (8 * GB, "2:cpu:/a\n", {"memory__a": (GB, 0, 0)}, 8 * GB),
        (8 * GB, "nonsense\n", {}, 8 * GB),
    ],
)
def test_free_memory_is_that_of_the_process(available, cgroup, groups, free, tmp_path):
    found = memory.host_free(machine(tmp_path, available, cgroup, **groups))
    assert found == pytest.approx(free, abs=1024)


def test_a_machine_that_says_nothing(tmp_path):
    assert memory.host_free(tmp_path) == memory.total() // 2
