"""The step that speed is measured on: Llama 3.1 405B, TP 8 in the node, PP 16 x 8 virtual stages, 16 micro-batches."""

from __future__ import annotations

from simnet.spec.load import expand, load_scenario

SCENARIO = """
name: large
question: How long does a step take to simulate?
topology: {{from: {topology}, nodes: {nodes}}}
workload:
  model: llama-3.1-405b
  sequence_length: 8192
  precision: fp8
  parallelism: {{tp: 8, pp: 16, virtual_stages: 8}}
  batch: {{num_micro_batches: 16}}
  layout: {{embedding_counts_as_layer: true, loss_counts_as_layer: true}}
  gradient_dtype: bf16
  rank_order: {rank_order}
"""


def reference_step(folder, topology, nodes, rank_order="tp-cp-pp-dp"):
    """Its case on so many nodes; ``tp-cp-dp-pp`` has the pipeline outermost."""
    path = folder / "large.yaml"
    path.write_text(SCENARIO.format(topology=topology, nodes=nodes, rank_order=rank_order))
    (one,) = expand(load_scenario(path))
    return one
