"""Context for calls to Orbax: no progress messages, no interrupts, and errors in one line."""

import contextlib
import copy
import errno
import functools
import logging
import os
import signal
import sys
import threading
import warnings
from typing import Any


def disk_reason(error: BaseException) -> str:
    """Return the operating system's message, from an error or any of its causes."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        said = next((text for text in map(os.strerror, errno.errorcode) if text in str(error)), None)
        if said:
            return said
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return reason(seen[0])  # type: ignore[arg-type]


def may_pass(error: BaseException) -> bool:
    """Return whether the same call may succeed at once.

    Orbax counts its time limit by the wall clock, which may have jumped; TensorStore does not repeat a call of the
    operating system that a signal interrupted.
    """
    return isinstance(error, TimeoutError) or disk_reason(error) == os.strerror(errno.EINTR)


def reason(error: Exception) -> str:
    """Return an error's first line, or a general message if the error is in the reading program itself."""
    if isinstance(error, AttributeError | TypeError | LookupError):
        return "its metadata cannot be read"
    return (str(error) or type(error).__name__).strip().splitlines()[0][:120]


@contextlib.contextmanager
def quiet():
    """Suppress Orbax's progress messages; errors are still raised."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    drop_late_callbacks()
    convert_once()
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def interrupts_held():
    """Delay Ctrl-C until a read is complete: Orbax swallows one, and its data then look damaged."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # nothing would be raised here
        return
    came: list[tuple[int, Any]] = []

    def receive(number: int, frame: object) -> None:
        came.append((number, frame))
        if len(came) > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, receive)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


MOST_CONVERTED = 16  # specs whose JSON is kept


@functools.cache
def convert_once() -> None:
    """Convert each of TensorStore's storage specs to JSON once, instead of once for each array of a checkpoint.

    Each conversion leaks: TensorStore 0.1.86 never frees the texts of the result, 260 bytes for each array in each save
    (`JsonToPyObject` in json_type_caster.cc gives references to `PyDict_SetItem`, which takes its own).
    """
    with contextlib.suppress(ImportError, AttributeError, TypeError):  # another version: it leaks, or is fixed
        from tensorstore import KvStore

        convert, known = KvStore.Spec.to_json, dict[tuple[str, bool], Any]()

        def converted(spec: Any, include_defaults: bool = False) -> Any:
            key = repr(spec), include_defaults
            found = known.get(key)
            if found is None:
                if len(known) >= MOST_CONVERTED:
                    known.clear()
                found = known[key] = convert(spec, include_defaults)
            return copy.deepcopy(found)

        KvStore.Spec.to_json = converted  # type: ignore[method-assign]


@functools.cache
def drop_late_callbacks() -> None:
    """Suppress messages of Orbax's and TensorStore's threads after a failure: `save` and `load` raise it."""
    show = sys.unraisablehook

    def hook(late: Any) -> None:
        unmade = getattr(late.object, "__qualname__", "") == "BaseEventLoop.__del__"  # there was no descriptor for it
        unrun = "orbax" in getattr(getattr(late.object, "cr_code", None), "co_filename", "")  # its coroutine
        if str(late.exc_value) != "Event loop is closed" and not unmade and not unrun:
            show(late)

    sys.unraisablehook = hook
    for logger, late_words in (
        ("asyncio", "exception was never retrieved"),  # the same failure, logged when its future is collected
        ("absl", "_SignalingThread.run() raised an exception"),  # what `save` raises as well
    ):
        logging.getLogger(logger).addFilter(lambda record, late=late_words: late not in record.getMessage())
    never = r"coroutine '(run_sync|synchronize_|Orbax|\w+Handler\.)\S*' was never awaited"
    warnings.filterwarnings("ignore", never, RuntimeWarning)
