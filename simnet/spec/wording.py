"""What is said of a value that a model refuses, in the words of a file instead of Python's types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def message(errors: Sequence[ErrorDetails]) -> str:
    """Return what is wrong with a value, in one clause; several errors are those of the forms that it may take."""
    if len(errors) > 1:
        return "none of the forms that this key takes"
    error = errors[0]
    if error["type"] in {"literal_error", "enum"}:
        return "not one of the words allowed here"
    context = error.get("ctx", {})
    if error["type"] == "less_than_equal":
        most = context["le"]
        return f"must be {int(most) if most == int(most) else most:,} or less"
    if error["type"] in _WORDS:
        return _WORDS[error["type"]].format(**context)
    return (
        error["msg"]
        .removeprefix("Value error, ")
        .removeprefix("Assertion failed, ")
        .replace("Input should be", "must be")
        .replace("an object", "a mapping")
    )


_WORDS = {
    "string_pattern_mismatch": "not of the form needed here",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "too_short": "needs {min_length} entry or more, has {actual_length}",
    "too_long": "takes {max_length} entries at most, has {actual_length}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
}
"""What is said instead of pydantic's words, which speak of Python's types."""


def allowed(errors: Sequence[ErrorDetails]) -> str:
    """Return what the value may be, empty if the message says so already."""
    parts = []
    for error in errors:
        context = error.get("ctx", {})
        word = str(context.get("expected", "") or context.get("pattern", "")).replace("'", "")
        if not word and len(errors) > 1:
            word = error["msg"].removeprefix("Input should be ").removeprefix("a valid ")
        if word:
            parts.append(_PLAIN_WORDS.get(word, word))
    return ", ".join(dict.fromkeys(parts))


_PLAIN_WORDS = {
    "dictionary or an object to extract fields from": "a mapping",
    "an object": "a mapping",
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "None": "null",
}


def expected_words(errors: Sequence[ErrorDetails]) -> list[str]:
    """Return the words that the value may be, for a suggestion."""
    words = " ".join(str(error.get("ctx", {}).get("expected", "")) for error in errors)
    return [word.strip("',") for word in words.replace(" or ", " ").split()]
