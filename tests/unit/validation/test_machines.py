"""The machines that published runs are simulated on."""

from __future__ import annotations

import pytest

from simnet.topology.build import build_cluster
from simnet.validation.machines import machine, machine_size

NDR_BYTES_PER_S = 50e9


@pytest.mark.parametrize(
    ("gpu", "num_gpus", "domains", "used"),
    [
        ("GB200", 2496, 39, 64),  # MLPerf v5.0: 16 of 18 trays of 39 racks
        ("GB200", 512, 8, 64),
        ("GB200", 64, 1, 64),
        ("GB300", 72, 1, 72),
        ("GB300", 144, 2, 72),
        ("GB200", 8, 1, 8),
        ("H100-SXM", 8192, 1024, 8),
        ("H100-SXM", 4, 1, 4),
        ("B200-HGX", 16, 2, 8),
    ],
)
def test_a_run_takes_whole_domains_or_16_of_18_trays(gpu, num_gpus, domains, used):
    size = machine_size(gpu, num_gpus)
    assert (size.domains, size.used_gpus) == (domains, used)


@pytest.mark.parametrize(("gpu", "num_gpus"), [("GB200", 256), ("GB200", 8), ("H100-SXM", 64), ("A100-40G", 16)])
def test_the_cluster_has_the_gpus_of_the_run(gpu, num_gpus):
    spec = machine(gpu, num_gpus, nic_bytes_per_s=NDR_BYTES_PER_S)
    assert spec.node.gpu.name == gpu
    assert build_cluster(spec).num_gpus == num_gpus


def test_the_rate_of_the_row_holds_from_the_nic_to_the_switches():
    spec = machine("A100-80G-SXM", 64, nic_bytes_per_s=12.5e9)
    assert spec.node.nic.bandwidth == spec.scale_out.link_bandwidth == 12.5e9
