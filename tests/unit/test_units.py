from __future__ import annotations

import pytest

from simnet import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_bandwidth, "400 Gb/s", 50e9),
        (units.parse_bandwidth, "50 GB/s", 50e9),
        (units.parse_bandwidth, "50GB/s", 50e9),
        (units.parse_bandwidth, "1 GiB/s", 1073741824.0),
        (units.parse_bandwidth, "1.6 Tb/s", 200e9),
        (units.parse_size, "80 GB", 80e9),
        (units.parse_size, "80 GiB", 85899345920.0),
        (units.parse_size, "4 B", 4.0),
        (units.parse_time, "2 us", 2e-6),
        (units.parse_time, "1e-6 s", 1e-6),
        (units.parse_time, "92 s", 92.0),
        (units.parse_time, "27.3 min", 1638.0),
        (units.parse_flops_rate, "989 TFLOP/s", 989e12),
        (units.parse_power, "700 W", 700.0),
        (units.parse_power, "14.3 kW", 14300.0),
        (units.parse_money, "36 kUSD", 36000.0),
        (units.parse_money, "36000 USD", 36000.0),
        (units.parse_length, "10 km", 10000.0),
    ],
)
def test_a_quantity_with_its_unit_is_read_in_si(parse, text, value):
    assert parse(text) == value


def test_a_bit_is_an_eighth_of_a_byte_and_giga_is_not_gibi():
    assert units.parse_bandwidth("8 Gb/s") == units.parse_bandwidth("1 GB/s") == 1e9
    assert units.parse_size("1 GiB") / units.parse_size("1 GB") == 2**30 / 10**9


@pytest.mark.parametrize("text", ["400", 400, 400.0, "4e2"])
def test_a_bare_number_is_refused_and_an_example_given(text):
    with pytest.raises(units.QuantityError, match="unit missing") as caught:
        units.parse_bandwidth(text)
    assert '"400 Gb/s"' in caught.value.hint


@pytest.mark.parametrize(
    ("parse", "text", "suggestion"),
    [
        (units.parse_bandwidth, "400 Gbps", "400 Gb/s"),
        (units.parse_bandwidth, "400 gb/s", "400 Gb/s"),
        (units.parse_bandwidth, "400 gb/s", "400 GB/s"),
        (units.parse_flops_rate, "989 TFLOPS", "989 TFLOP/s"),
        (units.parse_time, "3 µs", "3 us"),
        (units.parse_money, "36 k$", "36 kUSD"),
    ],
)
def test_a_near_miss_of_a_unit_gets_a_suggestion(parse, text, suggestion):
    with pytest.raises(units.QuantityError) as caught:
        parse(text)
    assert f'"{suggestion}"' in caught.value.hint


@pytest.mark.parametrize("text", ["", "fast", "Gb/s", "-1 s", "nan s", "inf s", "1e400 s", "1 2 s", None, True, [], {}])
def test_what_is_no_finite_quantity_is_refused(text):
    with pytest.raises(units.QuantityError):
        units.parse_time(text)


def test_the_unit_of_another_dimension_is_refused():
    with pytest.raises(units.QuantityError, match='"GB" is no unit of bandwidth'):
        units.parse_bandwidth("50 GB")


def test_the_si_factor_of_a_plain_number_is_one_and_of_nonsense_an_error():
    assert units.si_factor("1") == 1.0
    assert units.si_factor("us") == 1e-6
    with pytest.raises(units.QuantityError, match='"furlong" is no unit'):
        units.si_factor("furlong")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (units.format_time(2.1e-3), "2.1 ms"),
        (units.format_time(999.99e-6), "1 ms"),
        (units.format_time(0.0), "0 s"),
        (units.format_time(1638.0), "27.3 min"),
        (units.format_time(86400.0 * 14), "14 d"),
        (units.format_bandwidth(50e9), "400 Gb/s"),
        (units.format_byte_rate(480e9), "480 GB/s"),
        (units.format_size(80e9), "80 GB"),
        (units.format_size(2**30, binary=True), "1 GiB"),
        (units.format_flops_rate(989e12), "989 TFLOP/s"),
        (units.format_power(1.2e6), "1.2 MW"),
        (units.format_money(36000.0), "36 kUSD"),
        (units.format_length(10000.0), "10 km"),
        (units.format_time(float("nan")), "nan s"),
    ],
)
def test_a_value_is_shown_with_the_prefix_that_people_use(text, shown):
    assert text == shown
