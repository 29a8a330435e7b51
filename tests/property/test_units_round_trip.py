from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simnet import units

POSITIVE = st.floats(min_value=1e-9, max_value=1e17, allow_nan=False, allow_infinity=False)
PAIRS = [
    (units.format_time, units.parse_time),
    (units.format_bandwidth, units.parse_bandwidth),
    (units.format_byte_rate, units.parse_bandwidth),
    (units.format_size, units.parse_size),
    (units.format_flops_rate, units.parse_flops_rate),
    (units.format_power, units.parse_power),
    (units.format_money, units.parse_money),
    (units.format_length, units.parse_length),
]


@pytest.mark.parametrize(("show", "parse"), PAIRS)
@given(value=POSITIVE)
def test_what_is_shown_reads_back_within_its_four_digits(show, parse, value):
    assert parse(show(value)) == pytest.approx(value, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(("dimension", "unit"), [(name, unit) for name, table in units.UNITS.items() for unit in table])
@given(number=st.integers(min_value=0, max_value=10**6))
def test_every_unit_scales_by_its_factor(dimension, unit, number):
    value = units.parse_quantity(f"{number} {unit}", dimension)
    assert math.isclose(value, number * units.UNITS[dimension][unit], rel_tol=1e-15)


@given(text=st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_quantity_error(text):
    for dimension in units.UNITS:
        try:
            assert units.parse_quantity(text, dimension) >= 0
        except units.QuantityError as error:
            assert error.message  # noqa: PT017 (both outcomes are right)
