"""Quantities with units: ``"400 Gb/s"`` to SI floats and back. The only home of conversion factors.

``b`` is a bit and ``B`` a byte; ``k M G T P E`` are powers of 1000, ``Ki Mi Gi Ti Pi`` powers
of 1024. Inside simnet everything is SI: seconds, bytes, bytes/s, FLOP/s, watts, metres, and US
dollars.
"""

from __future__ import annotations

import difflib
import math
import re

BITS_PER_BYTE = 8
_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"n": 1e-9, "u": 1e-6, "m": 1e-3}
MINUTE_S = 60.0
_HOUR_S = 3600.0
_DAY_S = 86400.0
MICROSECOND_S = 1e-6


def _scaled(prefixes: dict[str, float], base: str, factor: float = 1.0) -> dict[str, float]:
    return {prefix + base: scale * factor for prefix, scale in prefixes.items()}


_SIZE = _scaled(_DECIMAL, "B") | _scaled(_BINARY, "B")
_BANDWIDTH = _scaled(_DECIMAL | _BINARY, "B/s") | _scaled(_DECIMAL | _BINARY, "b/s", 1 / BITS_PER_BYTE)
_TIME = _scaled(_SMALL | {"": 1.0}, "s") | {"min": MINUTE_S, "h": _HOUR_S, "d": _DAY_S}
_FLOPS_RATE = _scaled(_DECIMAL, "FLOP/s")
_POWER = _scaled(_DECIMAL | {"m": 1e-3}, "W")
_MONEY = _scaled({"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}, "USD")
_LENGTH = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3}

UNITS: dict[str, dict[str, float]] = {
    "bandwidth": _BANDWIDTH,
    "size": _SIZE,
    "time": _TIME,
    "flops rate": _FLOPS_RATE,
    "power": _POWER,
    "money": _MONEY,
    "length": _LENGTH,
}
"""Units of each dimension with their factor to SI."""

EXAMPLES: dict[str, str] = {
    "bandwidth": "400 Gb/s",
    "size": "80 GB",
    "time": "2 us",
    "flops rate": "989 TFLOP/s",
    "power": "700 W",
    "money": "36 kUSD",
    "length": "10 km",
}
"""A well-formed value of each dimension, for messages and schemas."""

_COMMON: dict[str, str] = {
    "bandwidth": "b/s or B/s with k M G T or Ki Mi Gi Ti before it",
    "size": "B with k M G T or Ki Mi Gi Ti before it",
    "time": "ns us ms s min h d",
    "flops rate": "FLOP/s with k M G T P E before it",
    "power": "mW W kW MW",
    "money": "USD kUSD MUSD",
    "length": "mm cm m km",
}
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*")
_SPELLINGS = {"µ": "u", "μ": "u", "ps": "/s", "flops": "FLOP/s", "FLOPS": "FLOP/s", "FLOPs": "FLOP/s", "$": "USD"}


class QuantityError(ValueError):
    """A text that is no quantity of the dimension asked for."""

    def __init__(self, message: str, *, found: str, allowed: str = "", hint: str = "") -> None:
        """Keep the parts of the message apart, so that a spec error can show them."""
        super().__init__("; ".join(part for part in (message, f"found {found}", hint) if part))
        self.message = message
        self.found = found
        self.allowed = allowed
        self.hint = hint


def parse_bandwidth(text: object) -> float:
    """Return a bandwidth per direction [bytes/s].

    Raises
    ------
    QuantityError
        If *text* is no number with a unit of bandwidth; so for the other parsers.

    Examples
    --------
    >>> parse_bandwidth("400 Gb/s")
    50000000000.0
    """
    return parse_quantity(text, "bandwidth")


def parse_size(text: object) -> float:
    """Return a size [bytes]; ``parse_size("80 GiB")`` is 85899345920.0."""
    return parse_quantity(text, "size")


def parse_time(text: object) -> float:
    """Return a time [s]; ``parse_time("2 us")`` is 2e-06."""
    return parse_quantity(text, "time")


def parse_flops_rate(text: object) -> float:
    """Return a compute rate [FLOP/s]; ``parse_flops_rate("989 TFLOP/s")`` is 9.89e14."""
    return parse_quantity(text, "flops rate")


def parse_power(text: object) -> float:
    """Return a power [W]."""
    return parse_quantity(text, "power")


def parse_money(text: object) -> float:
    """Return an amount of money [USD]; ``parse_money("36 kUSD")`` is 36000.0."""
    return parse_quantity(text, "money")


def parse_length(text: object) -> float:
    """Return a length [m]; ``parse_length("10 km")`` is 10000.0."""
    return parse_quantity(text, "length")


def parse_quantity(text: object, dimension: str) -> float:
    """Return *text* in SI; *dimension* is a key of :data:`UNITS`.

    Raises
    ------
    QuantityError
        If the unit is missing or of another dimension, or the number is not finite or negative.
    """
    example, common = EXAMPLES[dimension], _COMMON[dimension]
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        text = repr(text)
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise QuantityError(
            f"a {dimension} is a number and a unit", found=repr(text), allowed=common, hint=f'such as "{example}"'
        )
    number, unit = match.groups()
    if not unit:
        raise QuantityError(
            f"unit missing, a {dimension} needs one", found=number, allowed=common, hint=f'such as "{example}"'
        )
    factor = UNITS[dimension].get(unit)
    if factor is None:
        raise QuantityError(
            f'"{unit}" is no unit of {dimension}',
            found=f'"{text}"',
            allowed=common,
            hint=_unit_hint(number, unit, dimension),
        )
    value = _exact(float(number), factor)
    if not math.isfinite(value) or value < 0:
        raise QuantityError(f"a {dimension} is finite and not negative", found=f'"{text}"', allowed=common)
    return value


def _exact(number: float, factor: float) -> float:
    """Return the product; a factor below one divides by its inverse, so that "2 us" is exactly 2e-6."""
    return number / round(1 / factor) if factor < 1 else number * factor


def si_factor(unit: str) -> float:
    """Return how many SI units one *unit* is; ``"1"`` is the unit of a plain number.

    Raises
    ------
    QuantityError
        If no dimension has the unit.
    """
    if unit == "1":
        return 1.0
    for table in UNITS.values():
        if unit in table:
            return table[unit]
    raise QuantityError(
        f'"{unit}" is no unit', found=f'"{unit}"', allowed='"1" for a plain number; ' + "; ".join(_COMMON.values())
    )


def _unit_hint(number: str, unit: str, dimension: str) -> str:
    table = UNITS[dimension]
    mended = unit
    for wrong, right in _SPELLINGS.items():
        mended = mended.replace(wrong, right)
    same = [known for known in (mended, unit) if known in table]
    same = same or [known for known in table if known.lower() == mended.lower()]
    same = same or difflib.get_close_matches(mended, table, n=1)
    if not same:
        return f'such as "{EXAMPLES[dimension]}"'
    return "did you mean " + " or ".join(f'"{number} {known}"' for known in same) + "?"


def format_time(time_s: float) -> str:
    """Return a time for humans; ``format_time(0.0021)`` is ``"2.1 ms"``."""
    if time_s >= 2 * _DAY_S:
        return f"{time_s / _DAY_S:.4g} d"
    if time_s >= 2 * _HOUR_S:
        return f"{time_s / _HOUR_S:.4g} h"
    if time_s >= 2 * MINUTE_S:
        return f"{time_s / MINUTE_S:.4g} min"
    return _format(time_s, {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}, "s")


def format_size(size_bytes: float, *, binary: bool = False) -> str:
    """Return a size for humans, in powers of 1000 unless *binary*; ``format_size(8e10)`` is ``"80 GB"``."""
    return _format(size_bytes, ({"": 1.0} | _BINARY) if binary else _DECIMAL, "B")


def format_bandwidth(bandwidth_bytes_per_s: float) -> str:
    """Return a bandwidth in bits, as ports are sold; ``format_bandwidth(5e10)`` is ``"400 Gb/s"``."""
    return _format(bandwidth_bytes_per_s * BITS_PER_BYTE, _DECIMAL, "b/s")


def format_byte_rate(rate_bytes_per_s: float) -> str:
    """Return a rate in bytes, as collectives are measured; ``format_byte_rate(4.8e11)`` is ``"480 GB/s"``."""
    return _format(rate_bytes_per_s, _DECIMAL, "B/s")


def format_flops_rate(rate_flops_per_s: float) -> str:
    """Return a compute rate for humans; ``format_flops_rate(9.89e14)`` is ``"989 TFLOP/s"``."""
    return _format(rate_flops_per_s, _DECIMAL, "FLOP/s")


def format_power(power_w: float) -> str:
    """Return a power for humans; ``format_power(1.2e6)`` is ``"1.2 MW"``."""
    return _format(power_w, {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}, "W")


def format_money(money_usd: float) -> str:
    """Return an amount for humans; ``format_money(36000)`` is ``"36 kUSD"``."""
    return _format(money_usd, {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}, "USD")


def format_length(length_m: float) -> str:
    """Return a length for humans; ``format_length(10000)`` is ``"10 km"``."""
    return _format(length_m, {"": 1.0, "k": 1e3}, "m")


def _format(value: float, prefixes: dict[str, float], base: str) -> str:
    """Return *value* to four digits with the largest prefix that leaves at least 1 before the point."""
    if not math.isfinite(value):
        return f"{value} {base}"
    fitting = [item for item in prefixes.items() if float(f"{abs(value):.4g}") >= item[1]]
    prefix, factor = fitting[-1] if fitting and value else next(iter(prefixes.items()))
    if not value:
        prefix, factor = "", 1.0
    number = f"{value / factor:.4g}"
    return f"{float(number):g} {prefix}{base}" if "e" in number else f"{number} {prefix}{base}"
