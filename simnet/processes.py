"""Worker processes that leave Ctrl-C to their parent and end with it; imports next to nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

GRACE_S = 5
"""How long a worker may take to put down what it is writing."""


class WorkerPool(ProcessPoolExecutor):
    """Spawned processes; where the block of the pool ends by an exception, what they do is dropped.

    Parameters
    ----------
    num_workers : processes at most; each starts when there is work for it.
    """

    def __init__(self, num_workers: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.num_workers = num_workers
        super().__init__(max_workers=num_workers, mp_context=spawn, initializer=_heed_parent)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of a call; the worker that may be started for it never sees Ctrl-C."""
        with _interrupt_held():
            return super().submit(_call, fn, *args, **kwargs)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Wait for what was submitted, or end the workers at once if the block failed."""
        if kind is not None:
            self._end()
        super().__exit__(kind, error, where)

    def _end(self) -> None:
        workers, results = list((self._processes or {}).values()), self._result_queue
        self.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(GRACE_S)
            if worker.is_alive():
                worker.kill()
        # A worker that ends while it sends leaves half a message; the thread that reads it would wait for the rest,
        # and this process for that thread, as long as anybody could still write.
        results._writer.close()  # type: ignore[attr-defined]  # a name of multiprocessing that typeshed lacks


def _call(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return function(*args, **kwargs)
    except SystemExit:  # told to end, and by now no file is half written; the pool would go on with its next call
        os._exit(1)


def _heed_parent() -> None:
    signal.signal(signal.SIGTERM, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)


@contextmanager
def _interrupt_held() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: a process started meanwhile holds it back for good, from its first line."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
