"""GPUs, presets and workloads for kernel tests."""

from __future__ import annotations

import pytest

from simnet.spec.load import load_model, load_part
from simnet.spec.parts import GpuPart
from simnet.spec.workload import BatchSpec, ParallelismSpec, WorkloadSpec

GPU_NAMES = ("A100-40G", "A100-80G-SXM", "H100-SXM", "H200-SXM", "B200-HGX", "GB200", "B300-HGX", "GB300")
PRECISIONS = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")


def gpu(name):
    return load_part("gpu", name, GpuPart)


def pairs():
    """Return every GPU with every precision that it has units for."""
    return [
        (name, precision)
        for name in GPU_NAMES
        for precision in PRECISIONS
        if getattr(gpu(name).peak_flops, precision) is not None
    ]


@pytest.fixture
def llama_70b():
    return load_model("llama-3.1-70b")


@pytest.fixture
def job(llama_70b):
    def build(**changes):
        values = {
            "model": llama_70b,
            "sequence_length": 8192,
            "parallelism": ParallelismSpec(tp=4, cp=2, pp=4, virtual_stages=5),
            "batch": BatchSpec(global_batch_size=128),
        }
        return WorkloadSpec(**(values | changes))

    return build
