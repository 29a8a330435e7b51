"""A pool that is interrupted ends, whatever its workers were doing."""

from __future__ import annotations

import struct
import sys
import time

from simnet.processes import WorkerPool

END_S = 30


def half_a_result() -> None:
    """Write the head of a result of a megabyte to the pool's pipe, and go on working."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    frame.f_locals["result_queue"]._writer._send(struct.pack("!i", 1_000_000) + b"x" * 1000)
    time.sleep(END_S)


def test_an_interrupt_in_the_middle_of_a_result_leaves_no_thread_that_waits_for_the_rest() -> None:
    pool = WorkerPool(1)
    pool.submit(half_a_result)
    manager = pool._executor_manager_thread
    assert manager is not None
    time.sleep(2)  # the worker has started, and the reader has the head of its result
    pool.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    manager.join(END_S / 3)  # the interpreter joins it when it ends
    assert not manager.is_alive()
