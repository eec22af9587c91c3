"""Notices within a second that another process of the run has died.

All processes hold a connection to the first one, which a death closes at once. Joining needs the run's token: the
variable PURERL_TOKEN, the same in all processes, or one that the first process draws and sends through JAX's runtime.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator

import jax

from purerl.devices import distributed
from purerl.errors import InputError

TOKEN = "PURERL_TOKEN"  # a secret of the run that the launcher gives to all of its processes
FIRST_SECONDS = 2  # that the first process has to tell what all of them failed of, before another one leaves
ANSWER_SECONDS = 5  # that a connection may take to show that it is one of the run's
_INDEX, _DIGEST = 4, 32  # bytes


class Watch:
    """Ends this process when another one dies. Where a network is cut instead, JAX does so after `lost_seconds`."""

    def __init__(self, when_lost: Callable[[str], None], say: Callable[[str], None] = print):
        """Connect, all processes together.

        Args:
          when_lost: gets the reason, in another thread.
          say: shows a line, such as that a stranger was refused.

        Raises:
          InputError: if the processes have different tokens, or one does not come.
        """
        self._when_lost, self._over = when_lost, False
        self._first, self._closed = distributed.is_first(), threading.Event()
        self._links: list[socket.socket] = []
        if not jax.distributed.is_initialized():
            return
        host, bind = distributed.hosts()
        server = distributed.listen(bind) if distributed.is_first() else None
        own = os.environ.get(TOKEN, "")
        drawn = lambda: f"{server.getsockname()[1] if server else 0} {secrets.token_hex(16)}"
        port, nonce = distributed.first_does(drawn).split()
        if len(set(distributed.texts(_answer(own, nonce, 0).hex()))) > 1:
            raise InputError(f"the processes have different values of {TOKEN}, or some have none: give all the same")
        token = own or nonce
        if server is not None:
            with server:
                self._hold(accept(server, token, jax.process_count() - 1, say))
        else:
            self._hold([join(host, int(port), token, jax.process_index())])

    def _hold(self, links: list[socket.socket]) -> None:
        self._links = links
        for link in links:
            threading.Thread(target=self._wait, args=(link,), daemon=True).start()

    def _wait(self, link: socket.socket) -> None:
        try:
            word = link.recv(1)
        except OSError:
            word = b""
        self._closed.set()
        if not word and not self._over:
            self._when_lost("its connection was closed")

    def drop(self) -> None:
        """Let the others find out that this process fails, now: at its end it would wait for them."""
        self._over = True
        if self._links and not self._first:
            self._closed.wait(FIRST_SECONDS)
        for link in self._links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the others know that this process ends normally."""
        self._over = True
        for link in self._links:
            with contextlib.suppress(OSError):
                link.sendall(b".")


def accept(
    server: socket.socket,
    token: str,
    count: int,
    say: Callable[[str], None],
    seconds: float = distributed.START_SECONDS,
) -> list[socket.socket]:
    """Return the connections of the other processes; whoever does not know the token is refused and told.

    Args:
      server: listens.
      token: of the run.
      count: how many others there are; they are numbered from 1.
      say: shows a line.
      seconds: how long they are waited for.

    Raises:
      InputError: if some do not come in time.
    """
    found: dict[int, socket.socket] = {}
    refused: set[str] = set()
    changed, last = threading.Condition(), time.monotonic() + seconds

    def meet(link: socket.socket, host: str) -> None:
        index = _index(link, token)
        with changed:
            if 0 < index <= count and index not in found:
                link.settimeout(None)
                found[index] = link
                changed.notify()
                return
            if host not in refused:
                refused.add(host)
                say(f"refused a connection from {host}: it does not know the token of this run")
            link.close()

    server.settimeout(0.2)
    while len(found) < count:
        if time.monotonic() > last:
            missing = ", ".join(str(i) for i in range(1, count + 1) if i not in found)
            raise InputError(f"process {missing} did not connect to the first one within {seconds:g} s")
        with contextlib.suppress(TimeoutError):
            link, address = server.accept()
            threading.Thread(target=meet, args=(link, str(address[0])), daemon=True).start()
    with changed:
        return [found[i] for i in sorted(found)]


def join(host: str, port: int, token: str, index: int, seconds: float = distributed.START_SECONDS) -> socket.socket:
    """Return this process's connection to the first one, which has been shown the token.

    Raises:
      InputError: if it cannot be reached.
    """
    try:
        link = socket.create_connection((host, port), seconds)
        link.sendall(index.to_bytes(_INDEX, "big") + _answer(token, _received(link, _DIGEST).hex(), index))
    except OSError as error:
        raise InputError(f"the first process does not answer at {host}:{port} ({error.strerror or error})") from None
    link.settimeout(None)
    return link


def _index(link: socket.socket, token: str) -> int:
    """Return which process a connection is of, by its answer to a random number; -1 for a stranger's."""
    challenge = secrets.token_bytes(_DIGEST)
    try:
        link.settimeout(ANSWER_SECONDS)
        link.sendall(challenge)
        answer = _received(link, _INDEX + _DIGEST)
    except OSError:
        return -1
    index = int.from_bytes(answer[:_INDEX], "big")
    return index if hmac.compare_digest(answer[_INDEX:], _answer(token, challenge.hex(), index)) else -1


def _received(link: socket.socket, size: int) -> bytes:
    last, got = time.monotonic() + ANSWER_SECONDS, b""
    while len(got) < size:
        part = link.recv(size - len(got))
        if not part or time.monotonic() > last:
            raise OSError("the connection was closed")
        got += part
    return got


def _answer(token: str, challenge: str, index: int) -> bytes:
    return hmac.digest(token.encode(), f"{challenge} {index}".encode(), hashlib.sha256)


@contextlib.contextmanager
def watched(when_lost: Callable[[str], None], say: Callable[[str], None] = print) -> Iterator[None]:
    """Call `when_lost` with the reason if another process is lost meanwhile, however that is noticed."""
    watch = Watch(when_lost, say)
    try:
        yield
    except BaseException as error:
        if isinstance(error, RuntimeError | ValueError | TimeoutError) and distributed.is_loss(error):
            when_lost((str(error) or type(error).__name__).strip().splitlines()[0][:160])
        watch.drop()
        raise
    watch.close()
