"""Results on disk: one folder a case, found again by the hash of what decides the result."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import orjson

from simnet.analysis.result import Result
from simnet.errors import PhysicsError
from simnet.runner.case import provenance
from simnet.runner.wholeness import is_whole
from simnet.spec.scenario import CaseSpec

HASH_CHARS = 12
"""Characters of the hash in a folder's name."""
NAME_CHARS = 100
"""Characters of the case's name there; file systems take 255 for all."""
RESULT_FILE, TRACE_FILE = "result.json", "trace.json"


def case_folder(root: Path, case: CaseSpec, fidelity: str) -> Path:
    """Folder of a case; another version, input or fidelity gives another folder.

    Its name is ASCII and short whatever the case is called, so that every file system and locale takes it.
    """
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-=") else "_" for c in case.name)
    return root / "cases" / f"{safe[:NAME_CHARS]}-{fidelity}-{case.content_hash()[:HASH_CHARS]}"


def load_result(folder: Path, case: CaseSpec) -> Result | None:
    """Return the result that an earlier run left there, or None if it, or the trace beside it, is missing.

    A damaged file, or the result of another case, counts as none.
    """
    if not (folder / TRACE_FILE).is_file():
        return None
    try:
        result = Result.from_json((folder / RESULT_FILE).read_text(encoding="utf-8"))
        is_kept = is_whole(result) and (result.name, result.provenance) == (case.name, provenance(case))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PhysicsError):
        return None
    return result if is_kept else None


def save_case(folder: Path, result: Result, trace: Mapping[str, object] | None) -> None:
    """Write trace, then result: where both are there, the folder is whole.

    A case whose step another one has simulated has no trace of its own; the other's folder holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if trace is not None:
        write_atomically(folder / TRACE_FILE, orjson.dumps(trace))
    write_atomically(folder / RESULT_FILE, orjson.dumps(result))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    Raises
    ------
    OSError
        With the path of the file itself, whatever step of the writing failed.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
