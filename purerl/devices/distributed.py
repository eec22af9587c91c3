"""Join several processes, on one machine or many, into one run.

Every process runs the same program on its part of the devices. Only the first one makes decisions that depend on
time, writes logs and shows progress; it sends its decisions to the other processes.

Example:
  >>> import purerl
  >>> callable(purerl.distributed.initialize)
  True
"""

import ipaddress
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from purerl.errors import InputError

START_SECONDS = 60  # how long the others are waited for
LOST_SECONDS = 30  # after which a process that does not answer is given up
VARIABLES = {  # environment variables, read if the argument is not given
    "coordinator": "PURERL_COORDINATOR",
    "num_processes": "PURERL_NUM_PROCESSES",
    "process_index": "PURERL_PROCESS_INDEX",
}
CLUSTERS = ("SLURM_JOB_ID", "OMPI_MCA_orte_hnp_uri", "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID")  # JAX reads the rest
BIND = "JAX_COORDINATOR_BIND_ADDRESS"  # JAX's: where the first process listens, if not at the coordinator's address
_LOST_WORDS = (
    "Gloo",
    "gloo",
    "by peer",
    "NCCL",
    "heartbeat",
    "oordination",
    "arrier",
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
)
_TEXT = 4096  # bytes of a text that is sent to the others


def initialize(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_index: int | None = None,
    start_seconds: int = START_SECONDS,
    lost_seconds: int = LOST_SECONDS,
) -> None:
    """Connect to the other processes. Call this before anything else uses JAX.

    Args:
      coordinator: HOST:PORT of the first process; None: as PURERL_COORDINATOR says, or as found by JAX under SLURM,
        Open MPI, Kubernetes or on a TPU pod.
      num_processes: how many there are; None: PURERL_NUM_PROCESSES, or as found by JAX.
      process_index: which one this is, 0 for the first; None: PURERL_PROCESS_INDEX, or as found by JAX.
      start_seconds: how long to wait for the other processes.
      lost_seconds: how long a process may send no heartbeat; then JAX ends all of them.

    Raises:
      InputError: if only some of the three are known, or the other processes do not answer in time.
    """
    given = {"coordinator": coordinator, "num_processes": num_processes, "process_index": process_index}
    given = {name: os.environ.get(VARIABLES[name]) if value is None else value for name, value in given.items()}
    missing = [name for name, value in given.items() if value is None]
    if 0 < len(missing) < len(given):
        flags = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise InputError(f"--distributed lacks {flags}: give all of coordinator, num-processes and process-index")
    if missing:
        if not any(name in os.environ for name in CLUSTERS):
            raise InputError(
                "--distributed needs --coordinator HOST:PORT --num-processes N --process-index I, or SLURM"
            )
        arguments: dict[str, Any] = {}  # JAX finds them
    else:
        arguments = _checked(str(given["coordinator"]), given["num_processes"], given["process_index"])
        if arguments["process_id"]:
            _wait_for(arguments["coordinator_address"], start_seconds)
        elif BIND not in os.environ:
            arguments["coordinator_bind_address"] = _bind_address(arguments["coordinator_address"])
    try:
        jax.distributed.initialize(
            **arguments,
            initialization_timeout=start_seconds,
            heartbeat_timeout_seconds=lost_seconds,
        )
    except Exception as error:  # a cluster's variables may be anything
        reason = (str(error) or type(error).__name__).strip().splitlines()[0][:160]
        raise InputError(f"the processes did not connect within {start_seconds} s: {reason}") from None


def _checked(coordinator: str, num_processes: Any, process_index: Any) -> dict[str, Any]:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"coordinator is '{coordinator}'; it must be HOST:PORT, such as localhost:8476")
    try:
        count, index = int(num_processes), int(process_index)
    except (TypeError, ValueError):
        raise InputError(f"num-processes {num_processes} and process-index {process_index} must be integers") from None
    if not 0 <= index < count:
        raise InputError(f"process-index is {index}; it must be from 0 to num-processes - 1 = {count - 1}")
    return {"coordinator_address": coordinator, "num_processes": count, "process_id": index}


def host_of(address: str) -> str:
    """Return the host of HOST:PORT, without the brackets of an IPv6 address."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _bind_address(coordinator: str) -> str:
    """Return the HOST:PORT at which the first process listens: the coordinator's own address only.

    Where the machine knows its own name as a loopback address, as Debian writes it into /etc/hosts, others could not
    reach it there, so all are used.
    """
    host, port = host_of(coordinator), coordinator.rpartition(":")[2]
    try:
        listen(host, int(port)).close()
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise InputError(
            f"cannot listen at the coordinator's address {coordinator} ({error.strerror or error}); it must be this "
            f"machine's, with a free port, or {BIND} names another one"
        ) from None
    literal = ipaddress.ip_address(str(found).partition("%")[0])
    named = host != "localhost" and not _is_literal(host)
    return f"[::]:{port}" if literal.is_loopback and named else coordinator


def _is_literal(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def listen(host: str, port: int = 0) -> socket.socket:
    """Return a socket that listens at a host's address, or at all of this machine's if the host is "" or "::"."""
    everywhere = host in ("", "::", "0.0.0.0")
    found = socket.getaddrinfo(None if everywhere else host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return socket.create_server(found[0][4][:2], family=found[0][0])


def _wait_for(coordinator: str, seconds: float) -> None:
    """Wait until a process listens at the address: JAX itself would exit without a helpful message."""
    host, port = host_of(coordinator), coordinator.rpartition(":")[2]
    last = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=max(last - time.monotonic(), 0.1)).close()
            return
        except OSError as error:
            if time.monotonic() + 0.2 > last:
                raise InputError(
                    f"the coordinator {coordinator} did not answer within {seconds:g} s ({error}); "
                    "is the first process running, and does a firewall block it?"
                ) from None
            time.sleep(0.2)


def is_first() -> bool:
    """Return whether this is the first process, which makes decisions, prints and writes files."""
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def several() -> bool:
    """Return whether there are several processes."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def first_does(action: Callable[[], str]) -> str:
    """Run an action in the first process only, and return its text in all.

    Raises:
      InputError: on all processes, if it does in the first one.
    """
    if not jax.distributed.is_initialized():
        return action()
    message = ""
    if is_first():
        try:
            message = "+" + action()
        except InputError as error:
            message = "-" + str(error)
    words = np.zeros(_TEXT, np.uint8)
    raw = np.frombuffer(message.encode()[:_TEXT], np.uint8)
    words[: raw.size] = raw
    text = bytes(_gathered(words)[0]).rstrip(b"\0").decode(errors="replace")
    if text.startswith("-"):
        raise InputError(text[1:])
    return text[1:]


def texts(text: str) -> list[str]:
    """Return the text of every process."""
    raw = text.encode()
    size = int(agree(len(raw)).max())
    rows = _gathered(np.frombuffer(raw.ljust(size, b"\0"), np.uint8))
    return [bytes(row).rstrip(b"\0").decode() for row in rows]


def agree(*numbers: int) -> np.ndarray:
    """Return i64[processes, numbers]: the numbers of every process."""
    votes = np.array(numbers, np.int32)
    return (_gathered(votes) if jax.distributed.is_initialized() else votes[None]).astype(np.int64)


def _gathered(values: np.ndarray) -> np.ndarray:
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(values)).reshape(-1, values.size)


def is_loss(error: Exception) -> bool:
    """Return whether an error means that another process died; collectives raise several kinds of errors."""
    return (
        not isinstance(error, InputError)
        and jax.distributed.is_initialized()
        and any(word in str(error) for word in _LOST_WORDS)
    )
