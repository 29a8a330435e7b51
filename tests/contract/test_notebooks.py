from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped_and_the_last_cell_asserts_the_claim(path: Path) -> None:
    """That they run is nbmake's to test."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert any(line.startswith("assert ") for line in code[-1]["source"])


def test_there_is_a_notebook_to_start_with() -> None:
    assert NOTEBOOKS[0].stem == "01-quickstart"
