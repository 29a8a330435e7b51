from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from simnet.errors import LayoutError
from simnet.spec.compute import load_preset
from simnet.spec.load import load_model, load_part
from simnet.spec.model import ModelSpec
from simnet.spec.parts import GpuPart
from simnet.spec.workload import LayoutSpec, OverlapSpec
from simnet.workload.memory import estimate, require_fit
from simnet.workload.plan import Compute, build_plan
from simnet.workload.ranks import rank_grid
from tests.unit.workload.jobs import gpt, job, record_job

MODEL = gpt(layers=8, hidden=1024, heads=16)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: job(MODEL, dp=0), "greater than or equal to 1"),
        (lambda: LayoutSpec(layers_per_chunk=(8,), loss_counts_as_layer=True), "lists transformer layers only"),
        (lambda: LayoutSpec(layers_per_chunk=(9, -1)), "greater than or equal to 0"),
        (lambda: job(MODEL, pp=2, virtual_stages=2, schedule="gpipe"), "gpipe has one chunk per stage"),
        (lambda: job(MODEL, pp=2, virtual_stages=2, schedule="zb1p"), "zb1p has one chunk per stage"),
        (lambda: job(MODEL, pp=2, schedule="zbv"), "zbv has two chunks per stage"),
        (lambda: job(MODEL, pp=3, schedule="dualpipe"), "so pp is even"),
        (lambda: job(MODEL, pp=2, schedule="dualpipe", sharding="none"), "dualpipe does not go with sharding none"),
        (lambda: job(MODEL, pp=2, schedule="zb1p", sharding="fsdp"), "zb1p does not go with sharding fsdp"),
        (lambda: job(MODEL, pp=2, schedule="zb1p", recompute="full"), "until the gradients of its weights are formed"),
        (lambda: job(MODEL, pp=2, micro_batch_group_size=4), "is for interleaved schedules"),
        (lambda: job(MODEL, pp=4, virtual_stages=2, micro_batch_group_size=3), "one for each stage at least"),
        (lambda: job(MODEL, pp=2, schedule="interleaved"), "needs parallelism.virtual_stages above 1"),
        (lambda: job(MODEL, sequence_parallel=False, overlap=OverlapSpec(tp=True)), "overlap.tp splits"),
        (lambda: job(MODEL, rank_order="tp-tp-dp-pp"), "each of tp, cp, dp and pp once"),
        (lambda: job(MODEL, sharding="hsdp"), "needs fsdp_group"),
        (lambda: job(MODEL, sharding="fsdp", fsdp_group=8), "for hsdp alone"),
        (lambda: job(MODEL, cp=2, sharding="hsdp", fsdp_group=3), "whole context-parallel groups"),
        (lambda: job(MODEL, recompute_keeps=("fc2",)), "recompute_keeps is for recompute full alone"),
        (lambda: job(MODEL, recompute="selective", recompute_share=0.5), "recompute_share is for recompute full alone"),
        (lambda: job(MODEL, dp_bucket_parameters=0), "greater than or equal to 1"),
        (lambda: ModelSpec.model_validate({**MODEL.model_dump(), "kv_heads": 3}), "multiple of kv_heads"),
        (lambda: ModelSpec.model_validate({**MODEL.model_dump(), "attention": "mla"}), "come together"),
        (lambda: ModelSpec.model_validate({**MODEL.model_dump(), "kv_heads": 8}), "mha means kv_heads = heads"),
    ],
)
def test_clash_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        build()


def test_plan_of_the_record_run_takes_longer_than_its_roofline_and_not_ten_times() -> None:
    workload, gpu = record_job(cuda_graphs=True), load_part("gpu", "GB200", GpuPart)
    step = build_plan(workload, gpu, load_preset(gpu, "fp8"), dp=39)
    for ops, floor_s in zip(step.ops, step.compute_floor_s, strict=True):
        assert floor_s < sum(op.duration_s for op in ops if isinstance(op, Compute)) < 10 * floor_s
    # The floor is at least the model's FLOPs of a stage at the 5 PFLOP/s of the datasheet.
    assert max(step.compute_floor_s) > step.model_flops / 2496 / 5e15
    assert step.tokens_per_step == 1248 * 8192


def test_job_that_fits_gets_its_estimate() -> None:
    gpu = load_part("gpu", "GB200", GpuPart)
    assert require_fit(record_job(), gpu, dp=39) == estimate(record_job(), gpu, dp=39)


def test_grid_knows_its_replicas_and_refuses_less_than_one() -> None:
    degrees = job(MODEL, tp=4, pp=2, dp="auto").parallelism
    assert rank_grid(degrees, "tp-cp-dp-pp", 24).dp == 3
    with pytest.raises(LayoutError, match="tp 4 x cp 1 x pp 2 = 8 GPUs of work on 4 GPUs"):
        rank_grid(degrees, "tp-cp-dp-pp", 4)


def test_cards_of_one_shape_agree() -> None:
    plain, newer = load_model("llama-3-70b"), load_model("llama-3.1-70b")
    assert plain.model_dump(exclude={"name"}) == newer.model_dump(exclude={"name"})
