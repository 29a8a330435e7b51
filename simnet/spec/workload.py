"""The job: which model, how it is split over GPUs, in what batches, and what its recipe overlaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simnet.spec.base import Count, Ref, Rule, SpecModel, Whole, broken
from simnet.spec.bounds import MAX_GPUS, MAX_LAYERS, MAX_TOTAL
from simnet.spec.kernels import KernelsSpec
from simnet.spec.model import ModelSpec
from simnet.spec.sharding import PARAMETER_SHARDINGS, FsdpSpec, Sharding

RANK_AXES = ("tp", "cp", "dp", "pp")
"""Axes of the rank grid."""

Algorithm = Literal[
    "auto", "ring", "tree", "nvls", "nvls_tree", "collnet", "collnet_chain", "hierarchical", "hierarchical_3", "direct"
]
"""How a collective is made; ``auto`` chooses by size and machine as NCCL does."""

Stack = Literal["megatron", "pytorch", "compiled"]
"""What runs the kernels."""
AttentionKernel = Literal["flash", "flash2", "flash1", "unfused"]
"""How attention is computed."""
Recompute = Literal["none", "selective", "full"]
"""What the backward pass computes again."""
LayerProduct = Literal["qkv", "proj", "fc1", "fc2"]
"""Matrix products of a layer, in order."""

Schedule = Literal["1f1b", "interleaved", "gpipe", "zb1p", "zbv", "dualpipe"]
"""Order of forward and backward passes of a pipeline."""
SPLIT_BACKWARD: tuple[Schedule, ...] = ("zb1p", "zbv", "dualpipe")
"""Schedules that split backward passes in the gradient of the inputs and that of the weights."""

Degree = Annotated[int, Field(ge=1, le=MAX_GPUS)]
"""GPUs over which something is split."""


class ParallelismSpec(SpecModel):
    """Degrees of parallelism; their product is the number of GPUs."""

    tp: Degree = 1
    """Tensor parallel: GPUs that share every matrix."""
    cp: Degree = 1
    """Context parallel: GPUs that share every sequence."""
    pp: Degree = 1
    """Pipeline stages."""
    virtual_stages: int = Field(default=1, ge=1, le=MAX_LAYERS)
    """Chunks of layers that each pipeline stage holds; above 1 the schedule is interleaved, or zbv with 2."""
    micro_batch_group_size: Count | None = None
    """Micro-batches that an interleaved stage runs through one chunk before the next, pp or more; pp unless given
    (Megatron's microbatch_group_size_per_vp_stage)."""
    dp: Degree | Literal["auto"] = "auto"
    """Replicas; ``auto`` takes all GPUs of the cluster."""
    ep: Degree = 1
    """Expert parallel; for mixture-of-experts models."""
    etp: Degree = 1
    """Tensor parallel inside an expert."""

    @property
    def replica_size(self) -> int:
        """Return the GPUs of one replica."""
        return self.tp * self.cp * self.pp


class BatchSpec(SpecModel):
    """Sequences of a step: for the whole job (strong scaling) or for each replica (weak scaling)."""

    global_batch_size: Count | None = None
    """Sequences per optimizer step, all replicas together; give this or ``num_micro_batches``."""
    num_micro_batches: Count | None = None
    """Micro-batches that each replica runs in a step, whatever the number of replicas."""
    micro_batch_size: Count = 1
    """Sequences that pass a stage at a time."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.global_batch_size is None) == (self.num_micro_batches is None):
            raise broken(
                Rule(
                    message="give global_batch_size or num_micro_batches, one of the two",
                    keys=("num_micro_batches", "global_batch_size"),
                    found=f"{self.global_batch_size or 'null'} and {self.num_micro_batches or 'null'}",
                )
            )
        return self


class LayoutSpec(SpecModel):
    """Layers of each pipeline stage where they are not simply divided."""

    embedding_counts_as_layer: bool = False
    """The embedding takes the place of one layer in the first chunk."""
    loss_counts_as_layer: bool = False
    """Output projection and loss take the place of one layer in the last chunk."""
    layers_per_chunk: Annotated[tuple[Whole, ...], Field(min_length=1)] | None = None
    """Layers of every chunk in the model's order, one number for each of pp x virtual_stages chunks."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        counted = self.embedding_counts_as_layer or self.loss_counts_as_layer
        if self.layers_per_chunk is not None and counted:
            message = "layers_per_chunk lists transformer layers only; leave the counts_as_layer switches out"
            raise broken(Rule(message=message, keys=("layers_per_chunk",)))
        return self


class OverlapSpec(SpecModel):
    """What runs beside compute; the defaults are those of NVIDIA's recipes without user buffers."""

    tp: bool = False
    """Tensor-parallel gathers and scatters are split and run beside their matrix products (user buffers)."""
    dp_grad: bool = True
    """Gradients are reduced as their bucket completes, beside the backward pass."""
    dp_param: bool = True
    """Parameters are gathered as the forward pass reaches them."""
    pp: bool = True
    """Pipeline sends run beside compute; without it, the sender waits for each."""


class AlgorithmsSpec(SpecModel):
    """Algorithm of each kind of collective."""

    tp: Algorithm = "auto"
    """Tensor parallel."""
    cp: Algorithm = "auto"
    """Context parallel."""
    dp: Algorithm = "auto"
    """Data parallel."""


class WorkloadSpec(SpecModel):
    """One training job."""

    model: Annotated[ModelSpec, Ref("model")]
    """Model card, by name or in place."""
    sequence_length: Count
    """Tokens of a sequence."""
    precision: Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4"] = "bf16"
    """Precision of the layers' matrix products; attention and logits stay in 16 bit."""
    software_date: Annotated[float, Field(ge=2000, lt=2100)] | None = None
    """Year of the software stack, such as 2025.33: kernels of a young GPU are slower; mid-2025 unless given."""
    parallelism: ParallelismSpec = ParallelismSpec()
    """Degrees of parallelism."""
    batch: BatchSpec
    """Sequences of a step."""
    layout: Literal["balanced"] | LayoutSpec = "balanced"
    """Layers of each pipeline stage; ``balanced`` divides them and refuses what does not divide."""
    schedule: Schedule = "1f1b"
    """Order of forward and backward passes; 1f1b with virtual_stages above 1 is the interleaved one. zb1p, zbv and
    dualpipe split the backward pass; dualpipe holds two copies of the parameters."""
    sequence_parallel: bool = True
    """Norms and residual stream are split along the sequence over the tensor-parallel group."""
    context_parallel: Literal["ring", "all_gather"] = "ring"
    """Keys and values go round beside attention, or are gathered before it."""
    stack: Stack = "megatron"
    """What runs the kernels: megatron (Megatron-Core with Transformer Engine), pytorch (eager), or compiled
    (torch.compile, XLA)."""
    attention_kernel: AttentionKernel = "flash"
    """Fused attention keeps no scores: flash is the quickest kernel of the GPU, flash2 and flash1 are FlashAttention-2
    and -1 of 2023 and 2022; unfused keeps scores for the backward pass."""
    dropout: bool = False
    """Whether hidden states and attention have dropout, whose masks take memory (the early GPT runs)."""
    recompute: Recompute = "none"
    """What the backward pass computes again: nothing, the attention core, or whole layers."""
    recompute_keeps: tuple[LayerProduct, ...] = ()
    """Matrix products that full recomputation does not repeat: their results are kept, or, as fc2's where PyTorch
    stops early and XLA drops dead code, not needed."""
    recompute_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the layers that full recomputation recomputes (Megatron's recompute_num_layers, every n-th block)."""
    sharding: Sharding = "zero1"
    """What replicas split: zero1 the optimizer's state (Megatron's distributed optimizer), zero3 (DeepSpeed) and fsdp
    (PyTorch) gradients and parameters too, hsdp the same inside groups of ``fsdp_group`` GPUs."""
    fsdp_group: Degree | None = None
    """GPUs over which hsdp splits, context-parallel ranks included; the groups reduce among them."""
    fsdp: FsdpSpec = FsdpSpec()
    """When sharded parameters are gathered and gradients reduced."""
    gradient_dtype: Literal["fp32", "bf16"] = "fp32"
    """In what gradients are accumulated and reduced; Megatron's default is fp32, MLPerf entries use bf16."""
    fp8_parameters: bool = True
    """With an 8-bit precision, keep and gather the layers' weights in 8 bit only; no effect in 16 bit."""
    overlap: OverlapSpec = OverlapSpec()
    """What runs beside compute."""
    kernels: KernelsSpec | None = None
    """What-ifs about kernels, such as ``{attention: {speedup: 1.8}}``; as calibrated unless given."""
    cuda_graphs: bool = False
    """Whether layers are launched as CUDA graphs."""
    rank_order: str = Field(default="tp-cp-dp-pp", pattern=r"^[tcdp]p(-[tcdp]p){3}$")
    """Axes of the rank grid, innermost first; Megatron's default."""
    dp_bucket_parameters: Annotated[int, Field(ge=1, le=MAX_TOTAL)] | Literal["auto"] = "auto"
    """Parameters of a gradient bucket on the first chunk; auto is Megatron's max(40 million, 1 million x dp)."""
    algorithms: AlgorithmsSpec = AlgorithmsSpec()
    """Algorithm of each kind of collective."""
    link_shares: Literal["equal", "connections"] = "equal"
    """What a link is shared among: transfers alike, or their connections (channels), of which a collective has many."""

    @property
    def splits_backward(self) -> bool:
        """Return whether backward passes come in two parts, gradients of the inputs and of the weights."""
        return self.schedule in SPLIT_BACKWARD

    @property
    def num_copies(self) -> int:
        """Return the copies of the parameters that a pipeline holds."""
        return 2 if self.schedule == "dualpipe" else 1

    @property
    def shards_parameters(self) -> bool:
        """Return whether replicas split the parameters, which are then gathered unit by unit."""
        return self.sharding in PARAMETER_SHARDINGS

    @model_validator(mode="after")
    def _check(self) -> Self:
        rules = (*self._schedule_rules(), *self._recompute_rules(), *self._sharding_rules(), *self._model_rules())
        if rules:
            raise broken(*rules)
        return self

    def _schedule_rules(self) -> Iterator[Rule]:
        chunks = self.parallelism.virtual_stages
        keys = ("schedule", "parallelism.virtual_stages")
        if self.schedule in ("gpipe", "zb1p", "dualpipe") and chunks > 1:
            found, allowed = f"virtual_stages {chunks}", "1f1b or interleaved"
            yield Rule(message=f"{self.schedule} has one chunk per stage", keys=keys, found=found, allowed=allowed)
        if self.schedule == "interleaved" and chunks == 1:
            message = "interleaved needs parallelism.virtual_stages above 1"
            yield Rule(message=message, keys=keys, found="virtual_stages 1")
        if self.schedule == "zbv" and chunks != 2:
            message = "zbv has two chunks per stage, one on the way down and one on the way back"
            yield Rule(message=message, keys=keys, found=f"virtual_stages {chunks}", allowed="virtual_stages: 2")
        yield from self._pipeline_rules()
        if self.overlap.tp and not self.sequence_parallel:
            yield Rule(
                message="overlap.tp splits the gathers and scatters of sequence parallelism",
                keys=("sequence_parallel", "overlap.tp"),
                found="sequence_parallel false",
                allowed="sequence_parallel: true, or overlap.tp: false",
            )
        if sorted(self.rank_order.split("-")) != sorted(RANK_AXES):
            message = "rank_order names each of tp, cp, dp and pp once"
            yield Rule(message=message, keys=("rank_order",), allowed="such as tp-cp-dp-pp")

    def _pipeline_rules(self) -> Iterator[Rule]:
        """Yield what a schedule does not allow beside its chunks."""
        name, pp, group = self.schedule, self.parallelism.pp, self.parallelism.micro_batch_group_size
        if group is not None and (name not in ("1f1b", "interleaved") or self.parallelism.virtual_stages == 1):
            yield Rule(
                message="micro_batch_group_size is for interleaved schedules",
                keys=("parallelism.micro_batch_group_size", "schedule"),
                found=f"schedule {name} with virtual_stages {self.parallelism.virtual_stages}",
                allowed="schedule: interleaved, with virtual_stages above 1",
            )
        if group is not None and group < pp:
            yield Rule(
                message="a group of micro-batches fills the pipeline, so it has one for each stage at least",
                keys=("parallelism.micro_batch_group_size", "parallelism.pp"),
                found=f"micro_batch_group_size {group}, pp {pp}",
                allowed=f"{pp} or more",
            )
        if name == "dualpipe" and pp % 2:
            message = "dualpipe pairs each stage with its mirror image, so pp is even"
            allowed = f"pp: {max(2, pp - 1)} or {pp + 1}"
            yield Rule(message=message, keys=("parallelism.pp", "schedule"), found=f"pp {pp}", allowed=allowed)
        if not self.splits_backward:
            return
        shardings = ("zero1",) if name == "dualpipe" else ("none", "zero1")
        if self.sharding not in shardings:
            yield Rule(
                message=f"{name} does not go with sharding {self.sharding}",
                keys=("sharding", "schedule"),
                found=f"sharding {self.sharding}",
                allowed=" or ".join(shardings),
            )
        if self.recompute == "full":
            yield Rule(
                message=f"{name} keeps what a layer computed until the gradients of its weights are formed, which "
                "full recomputation would not save",
                keys=("recompute", "schedule"),
                found="recompute full",
                allowed="recompute none or selective, or schedule 1f1b",
            )

    def _recompute_rules(self) -> Iterator[Rule]:
        """Yield what recomputation does not allow."""
        for key, is_set in (("recompute_keeps", self.recompute_keeps), ("recompute_share", self.recompute_share < 1)):
            if is_set and self.recompute != "full":
                found = f"recompute {self.recompute}"
                yield Rule(message=f"{key} is for recompute full alone", keys=(key, "recompute"), found=found)

    def _sharding_rules(self) -> Iterator[Rule]:
        """Yield what a kind of sharding does not allow."""
        keys = ("fsdp_group", "sharding")
        found = f"sharding {self.sharding}"
        if self.sharding == "hsdp" and self.fsdp_group is None:
            yield Rule(message="hsdp needs fsdp_group, the GPUs over which it splits", keys=keys[1:], found=found)
        if self.sharding != "hsdp" and self.fsdp_group is not None:
            yield Rule(message="fsdp_group is for hsdp alone", keys=keys, found=found, allowed="sharding: hsdp")
        if self.fsdp_group is not None and self.fsdp_group % self.parallelism.cp:
            yield Rule(
                message="fsdp_group holds whole context-parallel groups",
                keys=("fsdp_group", "parallelism.cp"),
                found=f"fsdp_group {self.fsdp_group}, cp {self.parallelism.cp}",
                allowed=f"a multiple of {self.parallelism.cp}",
            )

    def _model_rules(self) -> Iterator[Rule]:
        """Yield what the model does not allow."""
        for axis in ("ep", "etp"):
            if self.model.moe is None and getattr(self.parallelism, axis) > 1:
                message = f"{axis} needs a mixture-of-experts model; {self.model.name} is dense"
                yield Rule(message=message, keys=(f"parallelism.{axis}",), allowed="1")
        rows = self.model.learned_positions
        if rows and self.sequence_length > rows:
            message = f"{self.model.name} has learned positions for {rows} tokens"
            keys = ("sequence_length", "model.learned_positions")
            found = f"sequence_length {self.sequence_length}"
            yield Rule(message=message, keys=keys, found=found, allowed=f"{rows} at most, or learned_positions: 0")
