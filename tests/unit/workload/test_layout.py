from __future__ import annotations

import pytest

from simnet.errors import LayoutError
from simnet.spec.workload import LayoutSpec
from simnet.workload.layout import pipeline_layout
from tests.unit.workload.jobs import gpt, job, record_job


def _layout(layers: int, **changes: object) -> tuple[tuple[int, ...], ...]:
    return pipeline_layout(job(gpt(layers=layers, hidden=1024, heads=16), **changes)).layers


def test_layers_divide_over_stages_and_chunks() -> None:
    assert _layout(32, pp=4, virtual_stages=2) == ((4, 4),) * 4


def test_30_layers_on_4_stages_are_refused_with_both_numbers_and_a_split() -> None:
    with pytest.raises(LayoutError, match=r"30 layers do not divide over 4 chunks.*30 = 7 x 4 \+ 2") as caught:
        _layout(30, pp=4)
    assert "[8, 8, 7, 7]" in caught.value.problems[0].hint


def test_80_layers_on_16_stages_of_2_chunks_are_refused() -> None:
    with pytest.raises(LayoutError, match=r"80 layers do not divide over 32 chunks.*80 = 2 x 32 \+ 16"):
        _layout(80, pp=16, virtual_stages=2)


def test_explicit_split_places_every_layer() -> None:
    assert _layout(30, pp=4, layout=LayoutSpec(layers_per_chunk=(8, 8, 7, 7))) == ((8,), (8,), (7,), (7,))


@pytest.mark.parametrize("counts", [(8, 8, 7, 6), (10, 10, 10), (7, 7, 7, 7)])
def test_explicit_split_that_drops_layers_is_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(LayoutError, match=f"places {sum(counts)} layers in {len(counts)} chunks.*has 30 layers"):
        _layout(30, pp=4, layout=LayoutSpec(layers_per_chunk=counts))


def test_record_run_has_64_chunks_of_two_with_one_layer_at_both_ends() -> None:
    layout = pipeline_layout(record_job())
    chunks = [layout.layers[stage][chunk] for chunk in range(8) for stage in range(8)]
    assert chunks == [1] + [2] * 62 + [1]
    assert sum(chunks) == 126
    assert [layout.has_embedding(0, 0), layout.has_loss(7, 7), layout.has_loss(7, 6)] == [True, True, False]


def test_virtual_stages_need_a_pipeline() -> None:
    with pytest.raises(LayoutError, match="2 virtual stages need a pipeline, but pp is 1"):
        _layout(32, virtual_stages=2)


def test_one_stage_holds_embedding_and_loss() -> None:
    counted = LayoutSpec(embedding_counts_as_layer=True, loss_counts_as_layer=True)
    assert _layout(30, layout=counted) == ((30,),)


@pytest.mark.parametrize("pp", [33, 64, 4_000_000])
def test_more_stages_than_layers_get_no_list_of_empty_ones(pp: int) -> None:
    with pytest.raises(LayoutError) as caught:
        _layout(32, pp=pp)
    (problem,) = caught.value.problems
    assert (problem.allowed, problem.hint) == ("degrees that divide", "32 layers fill 32 chunks at most")


def test_a_long_split_is_shown_by_its_start() -> None:
    with pytest.raises(LayoutError) as caught:
        _layout(1001, pp=500)
    assert caught.value.problems[0].hint.endswith(", 2, … 372 more]}")
