"""Kernel constants: sources, spreads, siblings, and that nothing is keyed to a run."""

from __future__ import annotations

import csv
import re

import pytest

from simnet.errors import SpecError
from simnet.library import find
from simnet.spec.compute import load_compute, load_preset
from tests.unit.kernels.conftest import GPU_NAMES, gpu, pairs


def constants(value):
    if hasattr(value, "as_of"):
        return [value]
    if isinstance(value, dict):
        return [one for item in value.values() for one in constants(item)]
    fields = getattr(type(value), "model_fields", {})
    return [one for name in fields for one in constants(getattr(value, name))]


def test_every_constant_has_source_date_and_spread():
    found = constants(load_compute())
    assert len(found) > 60
    assert all(one.source and one.as_of and one.low <= one.value <= one.high for one in found)


def test_no_constant_is_keyed_to_a_run_model_or_stack():
    part = load_compute()
    assert set(part.generations) <= {"volta", "ampere", "hopper", "blackwell"}
    assert set(part.gpu_compute) <= set(GPU_NAMES)
    text = find("part", "compute").read_text(encoding="utf-8").lower()
    table = find("part", "compute").parents[2] / "scenarios" / "validation" / "training_runs.csv"
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for column in ("run_id", "base_model_id", "stack"):
        names = {row[column].lower() for row in rows} - {"other", "megatron"}
        assert not [name for name in names if re.search(rf"\b{re.escape(name)}\b", text)]


@pytest.mark.parametrize(("name", "precision"), pairs())
def test_every_gpu_has_a_preset_at_every_precision_of_its_units(name, precision):
    preset = load_preset(gpu(name), precision)
    for share in ("linear_efficiency", "half_efficiency", "attention_forward_efficiency", "memory_efficiency"):
        assert 0.2 < getattr(preset, share) < 1


def test_h200_takes_the_efficiencies_of_h100_on_its_own_memory():
    h100, h200 = (load_preset(gpu(name), "fp8") for name in ("H100-SXM", "H200-SXM"))
    assert h200.linear_efficiency == h100.linear_efficiency
    assert h200.hbm_bytes_per_s == 4.8e12
    assert "H100-SXM" in h200.assumptions[0]


def test_a_gpu_without_rows_says_whose_efficiencies_it_takes():
    assert "GB300" in load_preset(gpu("B300-HGX"), "mxfp8").assumptions[0]
    assert not any("no measured runs" in note for note in load_preset(gpu("GB200"), "mxfp8").assumptions)


def test_a_preset_says_that_a_higher_peak_makes_nothing_quicker():
    part = gpu("H100-SXM")
    peaks = part.peak_flops.model_copy(update={"bf16": 2 * part.peak_flops_per_s("bf16")})
    twice = part.model_copy(update={"peak_flops": peaks})
    one, other = load_preset(part, "bf16"), load_preset(twice, "bf16")
    assert one.linear_efficiency * 989e12 == pytest.approx(other.linear_efficiency * 2 * 989e12)
    assert "peak_flops only caps that" in other.assumptions[-1]
    assert f"{one.linear_efficiency * 989:,.0f} of 1,978 TFLOP/s" in other.assumptions[-1]


def test_an_unknown_gpu_of_a_known_generation_follows_the_power_law():
    part = gpu("GB200")
    weak = part.model_copy(update={"name": "GB200-half", "tdp": part.tdp / 2})
    power = load_compute().laws.power_exponent.value
    ratio = load_preset(weak, "bf16").linear_efficiency / load_preset(part, "bf16").linear_efficiency
    assert ratio == pytest.approx(0.5**power)


def test_a_precision_without_units_is_refused():
    with pytest.raises(SpecError, match="nvfp4"):
        load_preset(gpu("H100-SXM"), "nvfp4")


def test_young_software_is_slower_and_matures():
    old, new = (load_preset(gpu("GB200"), "fp8", software_date=date) for date in (2025.25, 2026.5))
    assert old.linear_efficiency < new.linear_efficiency
    mature = (load_preset(gpu("H100-SXM"), "fp8", software_date=date) for date in (2024.0, 2026.5))
    assert len({preset.linear_efficiency for preset in mature}) == 1


def test_an_older_attention_kernel_is_slower_by_its_share_and_nothing_else():
    shares = load_compute().generations["hopper"].attention_kernel_share
    quickest, older = (load_preset(gpu("H100-SXM"), "bf16", attention_kernel=name) for name in ("flash", "flash1"))
    assert older.attention_forward_efficiency == quickest.attention_forward_efficiency * shares["flash1"].value
    assert older.linear_efficiency == quickest.linear_efficiency
    # FlashAttention-2 reaches 35 % of an H100 (arXiv:2407.08608), the first version about half of that.
    assert quickest.attention_forward_efficiency * shares["flash2"].value == pytest.approx(0.35, rel=0.25)
    assert shares["flash1"].value < shares["flash2"].value


def test_another_stack_slows_all_kernels_but_attention_alike():
    own, eager = (load_preset(gpu("A100-80G-SXM"), "bf16", stack=name) for name in ("megatron", "pytorch"))
    slowdown = load_compute().laws.stack_slowdown["pytorch"].value
    assert own.linear_efficiency / eager.linear_efficiency == pytest.approx(slowdown)
    assert own.memory_efficiency / eager.memory_efficiency == pytest.approx(slowdown)
    assert own.attention_forward_efficiency == eager.attention_forward_efficiency


def test_a_compiler_fuses_casts():
    own, compiled = (load_preset(gpu("H100-SXM"), "fp8", stack=name) for name in ("megatron", "compiled"))
    assert compiled.cast_bytes_per_element < own.cast_bytes_per_element
