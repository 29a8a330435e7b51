"""What the frameworks of the table of runs stand for: kernels, attention, recomputation, what is gathered in 8 bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simnet.spec.workload import AttentionKernel, LayerProduct, Recompute, Stack
from simnet.validation.blanks import Blanks
from simnet.validation.run_table import RunRow

MEGATRON, OTHER_STACKS = "megatron", "other stacks"
"""The stack that most rows are of, and the name of all others together."""
MEGATRON_FSDP = "megatron-fsdp"
"""Name under which the rows of Megatron with sharded parameters are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDefaults:
    """Documented behaviour of a framework."""

    stack: Stack
    attention: AttentionKernel
    """Fused attention kernel that its "flash" is."""
    full_keeps: tuple[LayerProduct, ...] = ()
    """Products that its full recomputation does not repeat."""
    selective_keeps: tuple[LayerProduct, ...] | None = None
    """The same of its selective recomputation, where that is whole layers but for some products."""
    selective_share: float = 1.0
    """Layers that its selective recomputation recomputes, where the row does not say."""
    gathers_8_bit: bool = False
    """Whether 8-bit recipes gather 8-bit weights."""


_STOPS_EARLY: tuple[LayerProduct, ...] = ("fc2",)
"""PyTorch's checkpoint stops once all that the backward pass saves is there (torch.utils.checkpoint,
``set_checkpoint_early_stop``), XLA drops what nothing reads: the layer's last product is not repeated."""
STACKS: Mapping[str, StackDefaults] = {
    "megatron": StackDefaults(stack="megatron", attention="flash", gathers_8_bit=True),
    # attn_impl: triton of 2023, the kernel of the first FlashAttention; FSDP1 without compilation.
    "llm-foundry": StackDefaults(stack="pytorch", attention="flash1", full_keeps=_STOPS_EARLY),
    # torch.compile and scaled_dot_product_attention; selective checkpointing takes every n-th block, here every second
    # one, or all where that does not fit.
    "fms": StackDefaults(
        stack="compiled",
        attention="flash2",
        full_keeps=_STOPS_EARLY,
        selective_keeps=_STOPS_EARLY,
        selective_share=1 / 2,
    ),
    "torchtitan": StackDefaults(
        stack="compiled",
        attention="flash2",
        full_keeps=_STOPS_EARLY,
        # Every second product is saved: of seven, those of keys, output and one half of the gate are computed again.
        selective_keeps=("qkv", "fc2"),
        gathers_8_bit=True,
    ),
    # cudnn_flash_te; remat_policy save_qkv_proj.
    "maxtext": StackDefaults(
        stack="compiled", attention="flash", full_keeps=_STOPS_EARLY, selective_keeps=("qkv", "fc2")
    ),
    # DeepSpeed ZeRO-3 with Megatron's model of 2021, whose checkpoints repeat whole layers.
    "other": StackDefaults(stack="pytorch", attention="flash1"),
}


def stack_name(row: RunRow) -> str:
    """Return the row's framework; a table without one is of Megatron."""
    return row.text("stack") or MEGATRON


def defaults_of(row: RunRow) -> StackDefaults:
    """Return the documented behaviour of the row's framework, which must be known."""
    return STACKS[stack_name(row)]


def attention_of_stack(row: RunRow, blanks: Blanks) -> AttentionKernel:
    """Return the attention kernel of a row."""
    is_fused = blanks.take(row, "attention_kernel", "unfused") == "flash"
    return defaults_of(row).attention if is_fused else "unfused"


def recompute_of_stack(row: RunRow, recompute: Recompute) -> dict[str, object]:
    """Return what *recompute* means in the row's framework, where that is not what it means in Megatron."""
    stack = defaults_of(row)
    if recompute == "full":
        return {"recompute_keeps": stack.full_keeps}
    if recompute != "selective" or stack.selective_keeps is None:
        return {}
    return {
        "recompute": "full",
        "recompute_keeps": stack.selective_keeps,
        "recompute_share": stack.selective_share,
    }


def stack_label(row: RunRow) -> str:
    """Return the stack under which a row is reported; Megatron with sharded parameters is one of its own."""
    is_sharded = row.text("sharding") in ("fsdp", "hsdp", "zero3")
    name = stack_name(row)
    return MEGATRON_FSDP if name == MEGATRON and is_sharded else name
