"""Notes on the blanks of a published run that took a default."""

from __future__ import annotations

from simnet.validation.run_table import RunRow


class Blanks:
    """Notes on blanks that took a default."""

    def __init__(self) -> None:
        """Start without any."""
        self.notes: list[str] = []

    def take(self, row: RunRow, column: str, default: str) -> str:
        """Return the column, or *default* with a note."""
        value = row.text(column)
        if value and value != "unknown":
            return value
        self.notes.append(f"{column} not stated: {default}")
        return default
