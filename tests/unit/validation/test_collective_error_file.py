"""The shipped errors of collectives are those of the shipped table."""

from __future__ import annotations

from simnet.library import find
from simnet.spec.collective_error import collective_error
from simnet.validation.collective_error_file import collective_error_yaml, measured_error


def test_the_shipped_file_is_what_its_writer_gives():
    shipped = collective_error()
    text = collective_error_yaml(measured_error(shipped.source))
    assert find("part", "collective_error").read_text(encoding="utf-8") == text


def test_a_size_has_the_errors_of_its_range():
    known = collective_error()
    assert [known.of(size).name for size in (8, 2**16, 2**28, 2**40)] == [
        "below 64 KiB",
        "64 KiB to 1 MiB",
        "from 256 MiB",
        "from 256 MiB",
    ]
