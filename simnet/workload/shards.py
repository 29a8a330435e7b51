"""What one rank holds of the model, and the bytes of each element of it."""

from __future__ import annotations

from dataclasses import dataclass

from simnet.spec.workload import WorkloadSpec
from simnet.workload.layers import norm_parameters
from simnet.workload.layout import Layout
from simnet.workload.transformer import (
    embedding_parameters,
    head_parameters,
    layer_matrix_parameters,
    layer_vector_parameters,
)

BF16_BYTES = 2
FP32_BYTES = 4
MXFP8_BYTES = 1 + 1 / 32
"""An 8-bit element and its share of a scale per 32 (OCP microscaling formats 1.0)."""
NVFP4_BYTES = 1 / 2 + 1 / 16
"""A 4-bit element and its share of an 8-bit scale per 16 (NVFP4)."""
OPERAND_BYTES = {
    "bf16": BF16_BYTES,
    "fp16": BF16_BYTES,
    "fp8": 1,
    "mxfp8": MXFP8_BYTES,
    "nvfp4": NVFP4_BYTES,
}
"""Bytes of an element of a matrix product's operand, and of what is gathered as one (Transformer Engine)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Parameters of one chunk on one rank, after tensor parallelism."""

    matrices: float
    """Weights of the layers' matrix products, which an 8-bit recipe quantises."""
    others: float
    """Embedding, output projection, norms and biases, which stay in 16 bit."""

    @property
    def parameters(self) -> float:
        """Both together."""
        return self.matrices + self.others


def shard(workload: WorkloadSpec, layout: Layout, stage: int, chunk: int) -> Shard:
    """Return the parameters of *chunk* on one rank of *stage*.

    Matrices and tables are divided over the tensor-parallel group; norms and biases, below a
    thousandth of a layer, are counted whole.
    """
    model, tp = workload.model, workload.parallelism.tp
    layers = layout.layers[stage][chunk]
    others: float = layers * layer_vector_parameters(model)
    if layout.has_embedding(stage, chunk):
        others += embedding_parameters(model) / tp
    if layout.has_loss(stage, chunk):
        # The table of tied embeddings is here already where one stage holds both ends.
        is_here = any(layout.has_embedding(stage, one) for one in range(layout.num_chunks))
        is_shared = model.tied_embeddings and is_here
        others += norm_parameters(model) if is_shared else head_parameters(model) / tp
    return Shard(matrices=layers * layer_matrix_parameters(model) / tp, others=others)


def stage_shard(workload: WorkloadSpec, layout: Layout, stage: int) -> Shard:
    """Return the parameters of all chunks on one rank of *stage*."""
    chunks = [shard(workload, layout, stage, chunk) for chunk in range(layout.num_chunks)]
    return Shard(matrices=sum(one.matrices for one in chunks), others=sum(one.others for one in chunks))


def shard_degree(workload: WorkloadSpec, *, dp: int) -> int:
    """Return the replicas of one shard group: all *dp*, or with hsdp those of ``fsdp_group`` GPUs."""
    if workload.fsdp_group is None:
        return dp
    return min(dp, max(1, workload.fsdp_group // workload.parallelism.cp))


def state_split(workload: WorkloadSpec, *, replicas: int) -> int:
    """Return the ranks that split the optimizer's state, of *replicas* (dp x cp) that hold the same weights.

    Where a pipeline holds several copies of the parameters, each of them counts.
    """
    if workload.sharding == "none":
        return 1
    cp = workload.parallelism.cp
    return shard_degree(workload, dp=replicas // cp) * cp * workload.num_copies


def gradient_bytes(workload: WorkloadSpec) -> int:
    """Return the bytes of a gradient element as it is kept and reduced."""
    return FP32_BYTES if workload.gradient_dtype == "fp32" else BF16_BYTES


def gathered_parameter_bytes(workload: WorkloadSpec) -> int:
    """Return the bytes of a matrix weight in the parameter all-gather.

    One byte with fp8 parameters; block-scaled formats are gathered in 16 bit and quantised after,
    since both directions of scales are needed (Megatron-Core 0.13, ``reuse_grad_buf_for_mxfp8_param_ag``).
    """
    return 1 if workload.precision == "fp8" and workload.fp8_parameters else BF16_BYTES


def is_quantised(workload: WorkloadSpec) -> bool:
    """Return whether the layers' matrix products have operands below 16 bit."""
    return workload.precision not in ("bf16", "fp16")
