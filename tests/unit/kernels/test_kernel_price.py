"""Kernel times: rooflines, shape law, gaps and what-ifs."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet.errors import SpecError
from simnet.spec.compute import load_preset
from simnet.workload.kernel_list import ChunkShape, Kernel, Unit, layer_backward, layer_forward
from simnet.workload.kernel_price import kernel_time
from simnet.workload.kernels import chunk_times, optimizer_time
from simnet.workload.transformer import layer_matrix_parameters
from tests.unit.kernels.conftest import gpu, pairs

H100 = load_preset(gpu("H100-SXM"), "bf16")


@st.composite
def shapes(draw):
    heads = draw(st.sampled_from([8, 16, 32, 64, 128]))
    kv_heads = draw(st.sampled_from([1, 8]))
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    return ChunkShape(
        hidden=heads * 128,
        heads=heads,
        kv_heads=min(heads, kv_heads),
        head_dim=128,
        ffn=draw(st.sampled_from([2, 3, 4])) * heads * 128,
        gated_mlp=draw(st.booleans()),
        vocab=32000,
        rotary=draw(st.booleans()),
        sequence_length=draw(st.sampled_from([512, 2048, 8192, 65536])),
        micro_batch_size=draw(st.integers(1, 8)),
        tp=tp,
        cp=draw(st.sampled_from([1, 2, 8])),
        linear_bytes=draw(st.sampled_from([2, 1, 0.5625])),
        is_attention_fused=draw(st.booleans()),
        is_tp_overlapped=draw(st.booleans()),
    )


@given(shape=shapes(), pair=st.sampled_from(pairs()))
def test_no_kernel_beats_its_roofline(shape, pair):
    preset = load_preset(gpu(pair[0]), pair[1])
    for is_backward, kernels in ((False, layer_forward(shape)), (True, layer_backward(shape))):
        for kernel in kernels:
            time = kernel_time(kernel, preset, is_backward=is_backward)
            num_bytes = kernel.num_bytes
            peak = preset.linear_peak_flops_per_s if kernel.unit is Unit.GEMM else preset.half_peak_flops_per_s
            assert time.busy_s >= kernel.flops / peak
            assert time.busy_s >= num_bytes / preset.hbm_bytes_per_s
            assert time.busy_s >= time.floor_s


@given(
    m=st.integers(64, 65536), n=st.integers(64, 65536), k=st.integers(64, 65536),
    axis=st.sampled_from(["m", "n", "k"]), factor=st.floats(1.0, 4.0),
)  # fmt: skip
def test_a_larger_product_takes_longer(m, n, k, axis, factor):
    def product(**size):
        flops = 2 * size["m"] * size["n"] * size["k"]
        return Kernel(name="product", unit=Unit.GEMM, flops=flops, **size)

    size = {"m": float(m), "n": float(n), "k": float(k)}
    small = kernel_time(product(**size), H100).busy_s
    large = kernel_time(product(**(size | {axis: size[axis] * factor})), H100).busy_s
    assert large >= small


def test_efficiency_of_a_product_saturates():
    rates = []
    for size in (1024.0, 4096.0, 16384.0, 65536.0):
        product = Kernel(name="p", unit=Unit.GEMM, flops=2 * size**3, m=size, n=size, k=size)
        rates.append(product.flops / kernel_time(product, H100).busy_s / H100.linear_peak_flops_per_s)
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(H100.linear_efficiency, rel=0.01)


def test_matrix_and_memory_time_overlap_as_the_longer_one():
    product = Kernel(name="p", unit=Unit.GEMM, flops=2 * 4096**3, m=4096, n=4096, k=4096)
    alone_s = kernel_time(product, H100).busy_s
    light = dataclasses.replace(product, num_bytes=1.0)
    heavy = dataclasses.replace(product, num_bytes=1e12)
    assert kernel_time(light, H100).busy_s == alone_s
    assert kernel_time(heavy, H100).busy_s == 1e12 / H100.hbm_bytes_per_s / H100.memory_efficiency


def test_a_product_cut_into_pieces_is_slower_and_one_piece_is_not():
    whole = Kernel(name="p", unit=Unit.GEMM, flops=2 * 2048 * 4096 * 4096, m=2048, n=4096, k=4096)
    times = [kernel_time(dataclasses.replace(whole, pieces=pieces), H100).busy_s for pieces in (1, 2, 4, 8)]
    assert times == sorted(times)
    assert times[0] < times[1]


def chunk(workload, name="H100-SXM", preset=None, **changes):
    part = gpu(name)
    keys = {"layers": 2, "has_embedding": False, "has_loss": False} | changes
    return chunk_times(workload.model, workload, part, preset or load_preset(part, workload.precision), **keys)


def test_chunk_time_grows_with_layers_sequence_and_micro_batch(job):
    base = chunk(job())
    assert chunk(job(), layers=4).forward_s > base.forward_s
    assert chunk(job(sequence_length=16384)).forward_s > 2 * base.forward_s  # attention is quadratic
    wide = job(batch={"global_batch_size": 128, "micro_batch_size": 2})
    assert base.forward_s < chunk(wide).forward_s < 2 * base.forward_s  # fuller waves


def test_embedding_and_loss_add_time(job):
    base = chunk(job())
    assert chunk(job(), has_embedding=True).backward_s > base.backward_s
    assert chunk(job(), has_loss=True).forward_s > base.forward_s


def test_recomputing_layers_adds_one_forward_to_the_backward_pass(job):
    base, full, selective = (chunk(job(recompute=name)) for name in ("none", "full", "selective"))
    assert full.backward_s - base.backward_s == pytest.approx(base.forward_s, rel=0.02)
    assert base.backward_s < selective.backward_s < full.backward_s


def test_products_that_are_kept_are_not_computed_again(job):
    """Each of the four products of a layer, forward, costs what the backward pass saves; fc2 takes its sum with it."""
    shape, full = _shape(job()), chunk(job(recompute="full"))
    gap_s = H100.launch_gap_s
    for name in ("qkv", "proj", "fc1", "fc2"):
        kernels = [kernel for kernel in layer_forward(shape) if kernel.name == name]
        kernels += layer_forward(shape)[-1:] if name == "fc2" else []
        saved_s = 2 * sum(kernel_time(kernel, H100).busy_s + gap_s for kernel in kernels)
        kept = chunk(job(recompute="full", recompute_keeps=(name,)))
        assert full.backward_s - kept.backward_s == pytest.approx(saved_s)
        assert kept.forward_s == full.forward_s


def test_recomputing_half_of_the_layers_costs_half(job):
    none, half, full = (
        chunk(job(**changes)).backward_s
        for changes in ({}, {"recompute": "full", "recompute_share": 0.5}, {"recompute": "full"})
    )
    assert half - none == pytest.approx((full - none) / 2)


def test_sharded_units_are_copied_out_of_and_into_the_buffers_of_their_collectives(job):
    """Weights 2 + 2 bytes, gradients 2 + 4 bytes of fp32, at the speed of streaming kernels."""
    split = {"parallelism": {"tp": 4}}
    plain, sharded = (chunk(job(**split, sharding=name), layers=1) for name in ("zero1", "fsdp"))
    parameters = layer_matrix_parameters(job().model) / 4
    share = H100.sharded_copy_share
    second_s = parameters / (H100.hbm_bytes_per_s * H100.memory_efficiency) * share
    assert sharded.forward_s - plain.forward_s == pytest.approx(4 * second_s)
    assert sharded.backward_s - plain.backward_s == pytest.approx((4 + 6) * second_s)


def test_graphs_shorten_every_gap_between_kernels(job):
    preset = load_preset(gpu("H100-SXM"), "bf16")
    slow, fast = chunk(job()), chunk(job(cuda_graphs=True))
    launches = sum(kernel.launches for kernel in layer_forward(_shape(job())))
    gap_s = preset.launch_gap_s - preset.launch_gap_graph_s
    assert slow.forward_s - fast.forward_s == pytest.approx(2 * launches * gap_s)


def _shape(workload):
    from simnet.workload.kernels import chunk_shape

    return chunk_shape(workload.model, workload)


def test_faster_attention_moves_the_pass_by_its_share(job):
    workload = job()
    part = gpu("B200-HGX")
    preset = load_preset(part, "bf16")
    base = chunk(workload, "B200-HGX")
    tuned = chunk(workload, "B200-HGX", preset.scaled(attention=1.2))
    assert base.forward_s - tuned.forward_s == pytest.approx(base.forward_attention_s * (1 - 1 / 1.2))
    assert base.backward_s - tuned.backward_s == pytest.approx(base.backward_attention_s * (1 - 1 / 1.2))


def test_a_what_if_beyond_the_roofline_is_refused(job):
    with pytest.raises(SpecError, match="beat its roofline"):
        chunk(job(), preset=load_preset(gpu("H100-SXM"), "bf16").scaled(gemm=2.0))


def test_more_memory_bandwidth_never_slows(job):
    assert chunk(job(), "H200-SXM").forward_s <= chunk(job(), "H100-SXM").forward_s


def test_collectives_beside_compute_slow_it(job):
    preset = load_preset(gpu("H100-SXM"), "bf16")
    free = preset.model_copy(update={"contention_share": 0.0})
    assert chunk(job(), preset=preset).backward_s > chunk(job(), preset=free).backward_s


def test_sharding_the_optimizer_divides_its_bytes(job):
    preset = load_preset(gpu("H100-SXM"), "bf16")
    whole = optimizer_time(job(sharding="none"), preset, parameters=1e9, replicas=8)
    shard = optimizer_time(job(sharding="zero1"), preset, parameters=1e9, replicas=8)
    rate = preset.hbm_bytes_per_s * preset.memory_efficiency
    assert whole - shard == pytest.approx(preset.optimizer_bytes_per_parameter * 1e9 * 7 / 8 / rate)


def test_a_step_has_a_floor_on_every_gpu(job):
    times = chunk(job())
    assert times.forward_floor_s < times.forward_s
    assert times.backward_floor_s < times.backward_s
    # 989 TFLOP/s cannot do two layers' products in less.
    flops = 2 * 4096 * 2 * (8192 * (10240 + 8192 + 57344 + 28672)) / 4
    assert times.forward_floor_s > flops / 989e12


def test_replicated_traffic_beside_the_passes_costs_its_share(job):
    preset = load_preset(gpu("H100-SXM"), "bf16")
    times = [optimizer_time(job(), preset, parameters=1e9, replicas=8, dp_beside_s=beside) for beside in (0.0, 0.5)]
    assert times[1] - times[0] == pytest.approx(0.5 * preset.contention_share_dp)
