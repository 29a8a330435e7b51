"""Measured tables as calls on a topology."""

from __future__ import annotations

import pytest

from simnet.errors import SpecError
from simnet.spec.load import load_topology
from simnet.topology import build_cluster
from simnet.validation.measured_table import read_table

HEAD = (
    "id,op,gpu_model,gpus,gpus_per_node,nvlink_domain,nics_per_node,nic_gbps,fabric,algo,size_bytes,time_us,harness\n"
)


@pytest.fixture
def table(tmp_path):
    def read(rows, topology="hgx-h100", **changes):
        path = tmp_path / "table.csv"
        path.write_text(HEAD + rows, encoding="utf-8")
        return read_table(path, build_cluster(load_topology(topology, changes)))

    return read


def test_rows_of_one_run_are_one_query_in_the_order_of_the_file(table):
    rows = "a,all_reduce,H100,8,4,8,8,400,roce,Ring,1024,30,multi-process\n"
    other = "b,all_gather,H100,8,4,8,8,400,roce,default,4096,20,multi-process\n"
    found = table(rows + other + rows.replace("1024,30", "2048,40"), nodes=2)
    assert [(query.op, query.algorithm, query.sizes_bytes) for query in found.queries] == [
        ("all_reduce", "ring", (1024, 2048)),
        ("all_gather", "auto", (4096,)),
    ]
    assert found.measured_s == pytest.approx((30e-6, 40e-6, 20e-6))
    assert found.queries[0].ranks == (0, 1, 2, 3, 8, 9, 10, 11)  # four GPUs of each node
    assert found.queries[0].num_nics == 8


def test_nics_of_a_rack_are_those_of_all_its_trays(table):
    row = "a,all_reduce,GB200,144,4,72,4,400,infiniband,default,1024,30,multi-process\n"
    (query,) = table(row, topology="gb200-nvl72", racks=2).queries
    assert (len(query.ranks), query.num_nics) == (144, 72)


def test_a_run_inside_one_node_needs_no_nics(table):
    row = "a,all_reduce,H100,8,8,8,1,200,none,default,1024,30,multi-process\n"
    assert table(row, nodes=1).queries[0].num_nics == 0


def test_rows_without_size_or_time_are_left_out(table):
    row = "a,all_reduce,H100,16,8,8,8,400,roce,default,,,multi-process\n"
    assert len(table(row + row.replace(",,,", ",1024,30,"), nodes=2).measured_s) == 1
    with pytest.raises(SpecError, match="no row with size and time"):
        table(row, nodes=2)
