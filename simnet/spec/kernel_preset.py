"""Kernel constants of one GPU at one precision, resolved to SI."""

from __future__ import annotations

from pydantic import Field

from simnet.spec.base import SpecModel


class KernelPreset(SpecModel):
    """Resolved figures of one GPU at one precision, all in SI."""

    gpu: str
    """Name of the GPU part."""
    precision: str
    """Precision of the linear layers; attention, logits and loss stay in 16 bit."""
    software_date: float
    """Year of the software stack."""
    linear_peak_flops_per_s: float
    """Dense peak of the datasheet for the linear layers [FLOP/s]."""
    linear_efficiency: float = Field(gt=0, le=1)
    """Share of that peak which a large matrix product reaches."""
    linear_bytes: float
    """Bytes of one operand element."""
    half_peak_flops_per_s: float
    """Dense 16-bit peak [FLOP/s]."""
    half_efficiency: float = Field(gt=0, le=1)
    """Share of it that a large 16-bit matrix product reaches."""
    k_half: float
    """Depth K at which a matrix product spends as long outside its main loop as inside."""
    wave_elements: float
    """Output elements that the last, partly filled wave wastes on average."""
    split_share: float
    """Part of a wave that each doubling of the pieces wastes when a product is cut to overlap with its collective."""
    attention_forward_efficiency: float = Field(gt=0, le=1)
    """Share of the 16-bit peak of the products in forward attention."""
    attention_backward_efficiency: float = Field(gt=0, le=1)
    """The same in backward attention."""
    attention_block_half: float
    """Keys per rank at which attention reaches half of its efficiency."""
    exponentials_per_s: float
    """Exponentials that the special-function units deliver [1/s]."""
    exponential_exposed_share: float
    """Share of the exponentials' time that matrix work does not hide."""
    hbm_bytes_per_s: float
    """HBM bandwidth of the datasheet [B/s]."""
    memory_efficiency: float = Field(gt=0, le=1)
    """Share of it that a streaming kernel reaches."""
    nvlink_bytes_per_s: float
    """NVLink bandwidth of the datasheet per direction, the yardstick of contention [B/s]."""
    cast_bytes_per_element: float
    """Bytes moved to quantise one element, all copies together."""
    transpose_bytes_per_element: float
    """Bytes moved to transpose one quantised element for the weight gradient; 0 where hardware reads both ways."""
    launch_gap_s: float
    """Idle time between two kernels of a stream [s]."""
    launch_gap_graph_s: float
    """The same inside a CUDA graph [s]."""
    loss_forward_bytes_per_logit: float
    """Bytes moved per logit in the forward cross-entropy."""
    loss_backward_bytes_per_logit: float
    """The same backward."""
    optimizer_bytes_per_parameter: float
    """Bytes moved per parameter of the shard in the optimizer step."""
    step_overhead_s: float
    """Host time per step that nothing hides [s]."""
    contention_share: float
    """By how much a TP or CP collective beside compute slows it, over its bytes on NVLink."""
    contention_share_dp: float
    """The same for gradient reductions and parameter gathers, over their time on the network."""
    sharded_copy_share: float
    """Copies of sharded units into and out of the buffers of their collectives, over one of each."""
    jitter: float
    """Standard deviation of a rank's compute time over ranks, as a share."""
    gemm_speedup: float = Field(default=1.0, gt=0)
    """What-if: matrix products so many times as fast."""
    attention_speedup: float = Field(default=1.0, gt=0)
    """What-if: fused attention so many times as fast."""
    memory_speedup: float = Field(default=1.0, gt=0)
    """What-if: streaming kernels so many times as fast."""
    assumptions: tuple[str, ...] = ()
    """What was taken from a sibling or assumed, in words."""

    @property
    def streaming_bytes_per_s(self) -> float:
        """HBM bandwidth of a kernel that only streams [B/s]."""
        return self.hbm_bytes_per_s * self.memory_efficiency * self.memory_speedup

    def of_stack(self, *, slowdown: float, attention_share: float, cast_share: float) -> KernelPreset:
        """Return the preset with kernels that take *slowdown* times as long, casts of a share of the bytes.

        *attention_share* is the speed of the fused attention kernel over that of the quickest.
        """
        return self.model_copy(
            update={
                "cast_bytes_per_element": self.cast_bytes_per_element * cast_share,
                "linear_efficiency": self.linear_efficiency / slowdown,
                "half_efficiency": self.half_efficiency / slowdown,
                "memory_efficiency": self.memory_efficiency / slowdown,
                "attention_forward_efficiency": self.attention_forward_efficiency * attention_share,
                "attention_backward_efficiency": self.attention_backward_efficiency * attention_share,
            }
        )

    def scaled(self, *, gemm: float = 1.0, attention: float = 1.0, memory: float = 1.0) -> KernelPreset:
        """Return the preset with kernels of a kind that many times as fast: a what-if, not a measurement.

        Pricing refuses a kernel that would beat its roofline.
        """
        return self.model_copy(
            update={
                "gemm_speedup": self.gemm_speedup * gemm,
                "attention_speedup": self.attention_speedup * attention,
                "memory_speedup": self.memory_speedup * memory,
            }
        )
