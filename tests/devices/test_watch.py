"""The connections by which processes notice that another one died: who may join, and what a stranger can do."""

import hashlib
import hmac
import select
import socket
import threading
import time

import pytest

from purerl.devices import distributed, watch
from purerl.errors import InputError


@pytest.fixture
def meeting():
    """A first process that waits for two others: (port, the lines it says, a function that returns its connections)."""
    server, lines, found = distributed.listen("127.0.0.1"), [], {}
    run = lambda: found.update(links=watch.accept(server, "secret", 2, lines.append, seconds=20))
    thread = threading.Thread(target=run)
    thread.start()

    def links():
        thread.join(20)
        return found["links"]

    yield server.getsockname()[1], lines, links
    server.close()


def test_processes_come_in_any_order(meeting):
    port, lines, links = meeting
    own = [watch.join("127.0.0.1", port, "secret", index) for index in (2, 1)]
    for link, index in zip(links(), (1, 2), strict=True):
        link.sendall(bytes([index]))
    assert [link.recv(1) for link in own] == [b"\2", b"\1"] and lines == []


def strangers(port):
    """Connections that do not know the token: a silent one, noise, a wrong token, an answer of zeros, a closed one."""
    open_ones = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    open_ones[1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n" * 40)
    open_ones[2].sendall((1).to_bytes(4, "big") + bytes(32))
    socket.create_connection(("127.0.0.1", port)).close()
    return [*open_ones, watch.join("127.0.0.1", port, "guessed", 1)]


def test_strangers_are_refused_told_once_and_do_not_disturb(meeting):
    port, lines, links = meeting
    outside = strangers(port)
    began = time.monotonic()
    own = [watch.join("127.0.0.1", port, "secret", index) for index in (1, 2)]
    assert len(links()) == 2 and time.monotonic() - began < watch.ANSWER_SECONDS
    assert lines == ["refused a connection from 127.0.0.1: it does not know the token of this run"]
    for link in outside[1:]:
        link.settimeout(watch.ANSWER_SECONDS + 5)
        with pytest.raises(OSError, match=r"closed|reset"):
            watch._received(link, 33)
    assert all(link.getpeername() for link in own)


def test_the_place_of_a_process_is_taken_once(meeting):
    """An answer that was overheard is of no use: each connection gets another random number."""
    port, lines, links = meeting
    both = {watch.join("127.0.0.1", port, "secret", 1) for _ in range(2)}
    refused = select.select(both, [], [], 20)[0]
    assert len(refused) == 1 and refused[0].recv(1) == b"" and len(lines) == 1
    watch.join("127.0.0.1", port, "secret", 2)
    links()[0].sendall(b"x")
    (taken,) = both - set(refused)
    taken.settimeout(20)
    assert taken.recv(1) == b"x"


def test_the_answer_is_an_hmac():
    wanted = hmac.new(b"secret", b"c0ffee 7", hashlib.sha256).digest()
    assert watch._answer("secret", "c0ffee", 7) == wanted


def test_a_process_that_does_not_come_is_named():
    with distributed.listen("127.0.0.1") as server, pytest.raises(InputError, match="process 1, 2 did not connect"):
        watch.accept(server, "secret", 2, print, seconds=0.3)


def test_what_all_processes_fail_of_is_told_by_the_first_one():
    """The other one fails earlier here, and its end is not taken for what went wrong."""
    ends, lost = socket.socketpair(), []
    first, other = watch.Watch(lost.append), watch.Watch(lost.append)
    other._first = False
    first._hold([ends[0]]), other._hold([ends[1]])
    failing = threading.Thread(target=other.drop)
    failing.start()
    time.sleep(0.2)
    assert lost == []
    first.drop()
    failing.join(watch.FIRST_SECONDS / 2)
    assert lost == [] and not failing.is_alive()


def test_without_other_processes_there_is_no_connection():
    with watch.watched(lambda why: None):
        pass
    with pytest.raises(InputError, match="does not answer"):
        watch.join("127.0.0.1", 1, "secret", 1)
