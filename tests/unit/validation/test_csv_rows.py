"""Tables that are no tables are refused with their place."""

from __future__ import annotations

import pytest

from simnet.errors import SpecError
from simnet.validation.collective_rows import read_measured
from simnet.validation.flows import read_flow_cases
from simnet.validation.run_table import read_runs

RUNS = "run_id,base_model_id,gpu,gpus,global_batch,precision,tp,step_s\n"
COLLECTIVES = "id,op,gpu_model,gpus,gpus_per_node,nvlink_domain,fabric,size_bytes,harness\n"


@pytest.mark.parametrize("read", [read_runs, read_measured])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a,b\n\xff\xfe\x00", r"t\.csv:2:1: not a table of .*: not UTF-8 text; found byte 0xff"),
        (b"", r"t\.csv:1:1: not a table of"),
        (bytes(range(128)), r"t\.csv:1:1: not a table of"),
    ],
)
def test_what_is_no_table_is_told_with_its_place(tmp_path, read, content, told):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(SpecError, match=told):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize("read", [read_runs, read_measured])
def test_what_cannot_be_opened_is_told(tmp_path, read):
    with pytest.raises(SpecError, match="cannot be read: is a directory"):
        read(tmp_path)
    with pytest.raises(SpecError, match="cannot be read: no such file"):
        read(tmp_path / "none.csv")


def test_every_cell_of_runs_that_is_no_number_is_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(RUNS + "a,m,H100-SXM,many,8,bf16,8,1.5\nb,m,H100-SXM,8,0,bf16,unknown,nan\n")
    with pytest.raises(SpecError) as caught:
        read_runs(path)
    told = [str(problem).removeprefix(str(tmp_path)) for problem in caught.value.problems]
    assert [line.partition("; allowed")[0] for line in told] == [
        '/t.csv:2:1 gpus: no count; found "many"',
        '/t.csv:3:1 global_batch: no count; found "0"',
        '/t.csv:3:1 step_s: no step time; found "nan"',
    ]


@pytest.mark.parametrize("read", [read_runs, read_measured])
def test_a_row_that_is_too_long_is_told(tmp_path, read):
    path = tmp_path / "t.csv"
    header = RUNS if read is read_runs else COLLECTIVES
    path.write_text(header + "," * 20 + "\n")
    with pytest.raises(SpecError, match=r"t\.csv:2:1: a row has more cells than there are columns"):
        read(path)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("x,all_reduce,H100,0,8,8,none,8,torch", "gpus 0"),
        ("x,all_reduce,H100,8,0,8,none,8,torch", "gpus_per_node 0"),
        ("x,all_reduce,H100,8,8,8,none,inf,torch", "size_bytes inf"),
        ("x,all_reduce,H100,8,8,8,none,-1,torch", "size_bytes -1"),
        ("x,frobnicate,H100,8,8,8,none,8,torch", 'no such operation; found "frobnicate"'),
    ],
)
def test_a_measured_row_that_no_machine_has_is_told_at_its_line(tmp_path, row, told):
    path = tmp_path / "t.csv"
    path.write_text(COLLECTIVES + row + "\n")
    with pytest.raises(SpecError, match=r"t\.csv:2:1: not a row; found") as caught:
        read_measured(path)
    assert told in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]", b"3", b'{"cases": 3}', b"[" * 100_000])
def test_what_is_no_flow_case_is_told(tmp_path, content):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(SpecError, match="not a flow case"):
        read_flow_cases(tmp_path / "t.json")
