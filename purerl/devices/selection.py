"""Selects the devices of a run: by `--devices` and `--mesh`, or automatically."""

import contextlib
import math
import os
from collections.abc import Sequence

import jax
from jax.sharding import Mesh

from purerl.devices.sharding import AXES, make_mesh
from purerl.errors import InputError, unknown
from purerl.xla import backend

MOST = 1024  # devices of a process; on a CPU each is made, and takes memory


def choose(devices: int | str, mesh: Sequence[str], num_seeds: int, num_envs: int) -> Mesh:
    """Return the mesh for a run; on a CPU that JAX has not used yet, create the host devices that it needs.

    Args:
      devices: how many, of each process where there are several; "auto": one per seed as far as there are devices or,
        on a CPU, cores; several processes give all they have.
      mesh: "axis=size" each; empty: the seeds first, and what devices are left split the environments.
      num_seeds, num_envs: the numbers of seeds and of environments of the run.

    Raises:
      InputError: if there are too few devices, or the mesh does not divide what is to be split.
    """
    axes = parse(mesh)
    if devices == "auto" and axes and not jax.distributed.is_initialized():
        wanted = math.prod(axes.values())
        if wanted > MOST:
            raise InputError(f"mesh is {','.join(mesh)}, {wanted} devices; at most {MOST} are used")
        make_host_devices(wanted)
    else:
        wanted = take(devices, num_seeds)
    found = make_mesh(wanted, axes or split(wanted, num_seeds))
    if num_envs % found.shape["data"]:
        split_by = (
            f"the mesh axis data={found.shape['data']}" if axes else f"the {found.shape['data']} devices of a seed"
        )
        raise InputError(f"num_envs {num_envs} is not a multiple of {split_by}")
    if found.shape["trial"] > 1:
        raise InputError("the mesh axis trial is for sweeps; a run has seed and data")
    return found


def take(devices: int | str, agents: int) -> int:
    """Return how many devices the agents are spread over; on a CPU that JAX has not used yet, create them.

    Args:
      devices: how many, of each process where there are several; "auto": one per agent as far as there are devices or,
        on a CPU, cores; several processes give all they have.
      agents: how many there are.

    Raises:
      InputError: if `devices` is neither a valid number nor "auto".
    """
    if devices == "auto" and jax.distributed.is_initialized():
        make_host_devices(1)
        return len(jax.devices())
    if devices == "auto":
        # At least two for several agents, on a single core as well: XLA compiles a single-device program differently,
        # which changes the last bits; from two devices on an agent's numbers do not depend on how many there are.
        make_host_devices(min(max(cores(), 2), agents))
        return min(usable(), agents)
    if isinstance(devices, int) and 1 <= devices <= MOST:
        make_host_devices(devices)
        return devices * jax.process_count()
    raise InputError(f"devices is {devices}; it must be auto or an integer from 1 to {MOST}")


def usable() -> int:
    """Return how many devices are worth using: all of them, but on a CPU at most one per core, and at least two."""
    return min(len(jax.devices()), max(cores(), 2)) if backend.shares_host() else len(jax.devices())


def parse(mesh: Sequence[str]) -> dict[str, int]:
    """Parse texts such as "data=2" into {axis: size}.

    Raises:
      InputError: for another form, an unknown axis or a size below 1.
    """
    axes: dict[str, int] = {}
    for entry in mesh:
        name, _, size = entry.partition("=")
        if name not in AXES:
            raise unknown("mesh axis", name, AXES)
        if not size.isdecimal() or len(size) > len(str(MOST)) or not 1 <= int(size) <= MOST:
            raise InputError(f"mesh is '{','.join(mesh)}'; it must be sizes of axes, such as seed=4 or data=2,seed=4")
        axes[name] = int(size)
    return axes


def split(count: int, num_seeds: int) -> dict[str, int]:
    """Return the mesh of `count` devices: all on `seed` if there are enough seeds, else the rest on `data`."""
    seed = next(size for size in range(min(count, num_seeds), 0, -1) if count % size == 0)
    return {"seed": seed, "data": count // seed}


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_host_devices(count: int) -> None:
    """Split the CPU into `count` devices; no effect after JAX used it, or if XLA_FLAGS sets the number."""
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    with contextlib.suppress(RuntimeError):  # the backend has started
        jax.config.update("jax_num_cpu_devices", count)
