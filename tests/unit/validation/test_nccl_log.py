"""Logs of nccl-tests, as launchers and versions print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.errors import SpecError
from simnet.validation.nccl_log import read_log
from tests.oracle.examples import examples

LOG = """# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
# Collective test starting: all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid  23451 on   node-a device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  23452 on   node-a device  1 [0x43] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid  9451 on   node-b device  0 [0x1b] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    31.42    0.00    0.00      0    30.10    0.00    0.00      0
   134217728      33554432     float     sum      -1   1575.6   85.18  159.72      0   1580.2   84.94  159.26    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 79.1
"""


@pytest.fixture
def log(tmp_path):
    def write(text):
        path = tmp_path / "run.log"
        path.write_text(text, encoding="utf-8")
        return read_log(path)

    return write


def test_a_log_gives_program_hosts_and_the_smaller_time(log):
    found = log(LOG)
    assert found.op == "all_reduce"
    assert found.ranks_of_hosts == (2, 1)
    assert [size for size, _ in found.rows] == [8, 134217728]
    assert [time for _, time in found.rows] == pytest.approx([30.10e-6, 1575.6e-6])


def test_prefixes_of_launchers_are_no_part_of_a_line(log):
    for prefix in ("[1,0]<stdout>:", "[1,0]<stdout>: ", "node-a: ", "0: "):
        assert log("".join(f"{prefix}{line}\n" for line in LOG.splitlines())) == log(LOG)


def test_old_columns_without_root_and_without_in_place_are_read(log):
    old = "  1048576  262144  float  64.9  16.16  14.14  4e-07  66.0  15.9  13.9  4e-07\n"
    assert log(old).rows[0] == pytest.approx((1048576, 64.9e-6))
    assert log("  1048576  262144  float  none  -1  64.9  16.16  14.14  0\n").rows[0] == pytest.approx(
        (1048576, 64.9e-6)
    )


def test_each_row_that_does_not_parse_is_told_with_its_line(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(LOG.replace("31.42", "error").replace("30.10", "error").replace("1575.6", "?"), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_log(path)
    assert [problem.where for problem in caught.value.problems] == [f"{path}:{line}:1" for line in (11, 12)]


def test_a_file_without_rows_is_refused(log, tmp_path):
    with pytest.raises(SpecError, match="no row of nccl-tests"):
        log("# nothing\n")
    with pytest.raises(SpecError, match="cannot be read"):
        read_log(tmp_path / "none.log")


@examples(100)
@given(text=st.text(alphabet=st.sampled_from("#0123456789. abcRank on device\n\t[]<>:-N/A"), max_size=400))
def test_any_text_is_a_log_or_one_clear_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("log") / "any.log"
    path.write_text(text, encoding="utf-8")
    fault = None
    try:
        found = read_log(path)
    except SpecError as error:
        fault = error
    if fault is None:
        assert all(size > 0 and time > 0 for size, time in found.rows)
    else:
        assert all(str(path) in problem.where for problem in fault.problems)
