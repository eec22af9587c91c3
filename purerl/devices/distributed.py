"""Several processes, on one machine or many, as one run: joins JAX's runtime and watches the other processes.

Every process runs the same program on its part of the devices. The first one alone makes decisions that depend on
time, writes logs and shows progress; it sends its decisions to the others.
"""

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import jax
import numpy as np

from purerl.errors import InputError

START_SECONDS = 60  # how long the others are waited for
LOST_SECONDS = 30  # after which a process that does not answer is given up
VARIABLES = {  # of the environment, read where no argument says otherwise
    "coordinator": "PURERL_COORDINATOR",
    "num_processes": "PURERL_NUM_PROCESSES",
    "process_index": "PURERL_PROCESS_INDEX",
}
CLUSTERS = ("SLURM_JOB_ID", "OMPI_MCA_orte_hnp_uri", "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID")  # JAX reads the rest
LOST = 3  # the exit code of a process that lost another one
_LOST_WORDS = ("Gloo", "NCCL", "heartbeat", "oordination", "arrier", "UNAVAILABLE", "DEADLINE_EXCEEDED")
_HOST: dict[str, str] = {}  # the coordinator's, where it was given
_ENDING = threading.Lock()
_TEXT = 4096  # bytes of a text that is sent to the others


def initialize(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_index: int | None = None,
    start_seconds: int = START_SECONDS,
    lost_seconds: int = LOST_SECONDS,
) -> None:
    """Join the other processes. To be called before anything else uses JAX.

    Args:
      coordinator: HOST:PORT of the first process; None: as PURERL_COORDINATOR says, or as found by JAX under SLURM,
        Open MPI, Kubernetes or on a TPU pod.
      num_processes: how many there are; None: PURERL_NUM_PROCESSES, likewise.
      process_index: which one this is, 0 for the first; None: PURERL_PROCESS_INDEX, likewise.
      start_seconds: how long the others are waited for.
      lost_seconds: after which a process that does not answer is given up, and all stop.

    Raises:
      InputError: if only some of the three are known, or the others do not answer in time.
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
        arguments: dict[str, Any] = {}
    else:
        arguments = _checked(str(given["coordinator"]), given["num_processes"], given["process_index"])
        _HOST["coordinator"] = str(given["coordinator"]).rpartition(":")[0]
        if arguments["process_id"]:
            _wait_for(arguments["coordinator_address"], start_seconds)
    try:
        jax.distributed.initialize(
            **arguments,
            initialization_timeout=start_seconds,
            heartbeat_timeout_seconds=lost_seconds,
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0][:160]
        raise InputError(f"the processes did not come together within {start_seconds} s: {reason}") from None


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


def _wait_for(coordinator: str, seconds: float) -> None:
    """Wait until somebody listens there: JAX itself would end the process without a word that helps."""
    host, _, port = coordinator.rpartition(":")
    last = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=max(last - time.monotonic(), 0.1)).close()
            return
        except OSError as error:
            if time.monotonic() + 0.2 > last:
                raise InputError(
                    f"the coordinator {coordinator} did not answer within {seconds:g} s ({error}); "
                    "is the first process running, and does a firewall let it be reached?"
                ) from None
            time.sleep(0.2)


def is_first() -> bool:
    """Return whether this is the first process, which decides, shows and writes."""
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def several() -> bool:
    """Return whether there are other processes."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def first_does(action: Callable[[], str]) -> str:
    """Return the text of an action that the first process alone runs.

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


class Watch:
    """Ends this process when another one dies: all hold a connection to the first, which a death closes at once.

    Where a network is cut instead, JAX ends the process after `lost_seconds`.
    """

    def __init__(self, when_lost: Callable[[str], None]):
        """Connect, all processes together; `when_lost` gets the reason, in another thread."""
        self._when_lost, self._over = when_lost, False
        self._links: list[socket.socket] = []
        if not jax.distributed.is_initialized():
            return
        server = socket.create_server(("", 0)) if is_first() else None
        address = first_does(lambda: f"{socket.gethostname()}:{server.getsockname()[1]}" if server else "")
        host, _, port = address.rpartition(":")
        if server is not None:
            server.settimeout(START_SECONDS)
            self._links = [server.accept()[0] for _ in range(jax.process_count() - 1)]
            server.close()
        else:
            self._links = [socket.create_connection((_HOST.get("coordinator", host), int(port)), START_SECONDS)]
        for link in self._links:
            link.settimeout(None)
            threading.Thread(target=self._wait, args=(link,), daemon=True).start()

    def _wait(self, link: socket.socket) -> None:
        try:
            word = link.recv(1)
        except OSError:
            word = b""
        if not word and not self._over:
            self._when_lost("its connection was closed")

    def drop(self) -> None:
        """Let the others find out that this process fails, now: at its end it would wait for them."""
        self._over = True
        for link in self._links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the others know that this process ends normally."""
        self._over = True
        for link in self._links:
            with contextlib.suppress(OSError):
                link.sendall(b".")


@contextlib.contextmanager
def watched(when_lost: Callable[[str], None]) -> Iterator[None]:
    """Call `when_lost` with the reason if another process is lost meanwhile, however that is noticed."""
    watch = Watch(when_lost)
    try:
        yield
    except BaseException as error:
        if isinstance(error, RuntimeError | ValueError | TimeoutError) and is_loss(error):
            when_lost((str(error) or type(error).__name__).strip().splitlines()[0][:160])
        watch.drop()
        raise
    watch.close()


def is_loss(error: Exception) -> bool:
    """Return whether an error says that another process is gone; collectives raise errors of several kinds."""
    return (
        not isinstance(error, InputError)
        and jax.distributed.is_initialized()
        and any(word in str(error) for word in _LOST_WORDS)
    )


def give_up(why: str, resume: str | None) -> NoReturn:
    """End this process because another one is gone: there is no process left to end with.

    Args:
      why: the reason.
      resume: the command that goes on; None: nothing was kept.
    """
    _ENDING.acquire()  # for good: several threads may notice
    hint = f"the last checkpoint is kept; go on by starting all processes with:\n  {resume}"
    print(
        f"another process of this run stopped ({why})",
        hint if resume else "nothing was kept",
        sep="\n",
        file=sys.stderr,
    )
    sys.stderr.flush()
    os._exit(LOST)
