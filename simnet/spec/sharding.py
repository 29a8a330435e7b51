"""How parameters are split over replicas: what is gathered when, and how gradients are reduced."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simnet.spec.base import SpecModel

Sharding = Literal["none", "zero1", "zero3", "fsdp", "hsdp"]
"""What replicas split among them."""
PARAMETER_SHARDINGS: tuple[Sharding, ...] = ("zero3", "fsdp", "hsdp")
"""Kinds that split the parameters too, which are then gathered unit by unit."""
MAX_PREFETCH = 64
"""Units that may be gathered ahead: as many as hold all layers of common models."""


class FsdpSpec(SpecModel):
    """Sharded data parallelism, one unit a layer; no effect with sharding none and zero1."""

    reshard_after_forward: bool = True
    """Free a unit after its forward pass and gather it again for its backward pass; without it, the parameters stay
    from forward to backward (ZeRO-2), and with a pipeline to the end of the step."""
    prefetch: Annotated[int, Field(ge=0, le=MAX_PREFETCH)] = 1
    """Units that are gathered ahead of the one that computes; 0 gathers each when it is needed."""
    reduce: Literal["each_micro_batch", "last_micro_batch"] = "each_micro_batch"
    """Reduce gradients after every micro-batch, or keep them whole and reduce once (PyTorch's no_sync)."""
