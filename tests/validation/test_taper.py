"""A thinner join never speeds a step up, and in the record's layout only gradients and parameters leave the rack."""

from __future__ import annotations

from itertools import pairwise

import pytest

from simnet.runner import prepare, simulate
from simnet.spec.load import expand, load_scenario

SCENARIO = """
name: taper
question: What does a thinner join cost the record's layout on four racks?
topology: record-405b-modular
workload:
  model: llama-3.1-405b
  sequence_length: 8192
  precision: fp8
  parallelism: {tp: 4, cp: 2, pp: 8, virtual_stages: 2, dp: 4}
  batch: {num_micro_batches: 8}
  layout: {embedding_counts_as_layer: true, loss_counts_as_layer: true}
  gradient_dtype: bf16
  rank_order: tp-cp-pp-dp
vary:
  topology.racks: [4]
  topology.join.taper: [1, 3, 9, 18]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("taper") / "taper.yaml"
    path.write_text(SCENARIO)
    return [simulate(prepare(case)).result for case in expand(load_scenario(path))]


def test_step_time_never_falls_as_the_taper_grows(results):
    times = [result.step_time_s for result in results]
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(times))
    assert times[-1] > times[0]


def test_only_gradients_parameters_and_scalars_leave_the_rack(results):
    for result in results:
        for use in result.link_classes:
            if use.link_class != "nvlink" and use.bytes:
                assert set(use.traffic_bytes) == {"dp"}
