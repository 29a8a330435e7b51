"""Results on disk: one folder a case, found again by the hash of what decides the result."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import orjson

from simnet.analysis.result import Result
from simnet.errors import PhysicsError
from simnet.spec.scenario import CaseSpec

HASH_CHARS = 12
"""Characters of the hash in a folder's name."""
RESULT_FILE, TRACE_FILE = "result.json", "trace.json"


def case_folder(root: Path, case: CaseSpec, fidelity: str) -> Path:
    """Folder of a case; another version, input or fidelity gives another folder."""
    safe = "".join(c if c.isalnum() or c in "._-=" else "_" for c in case.name)
    return root / "cases" / f"{safe}-{fidelity}-{case.content_hash()[:HASH_CHARS]}"


def load_result(folder: Path) -> Result | None:
    """Return the result that an earlier run left there, or None; a damaged file counts as none."""
    try:
        return Result.from_json((folder / RESULT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, PhysicsError):
        return None


def save_case(folder: Path, result: Result, trace: Mapping[str, object] | None) -> None:
    """Write trace, then result; the result's presence says that the folder is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    if trace is not None:
        write_atomically(folder / TRACE_FILE, orjson.dumps(trace))
    write_atomically(folder / RESULT_FILE, orjson.dumps(result))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
