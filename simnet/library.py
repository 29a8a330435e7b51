"""Shipped and own files by name: where a topology, part, scenario, model or price list lies."""

from __future__ import annotations

import re
from pathlib import Path

from simnet.errors import Problem, SpecError, did_you_mean, listed

FOLDERS: dict[str, str] = {
    "topology": "topologies",
    "part": "topologies/parts",
    "price": "topologies/prices",
    "scenario": "scenarios",
    "collective": "scenarios/collectives",
    "model": "scenarios/models",
    "workload": "scenarios/workloads",
}
"""Folder of each kind of file, inside a checkout, the working directory and the installed package."""

_COLLECTIVE_KEY = re.compile(r"^collective\s*:", re.MULTILINE)
_PACKAGE = Path(__file__).resolve().parent


def find(kind: str, ref: str | Path, *, near: Path | None = None) -> Path:
    """Return the file that *ref* names.

    Parameters
    ----------
    kind
        A key of :data:`FOLDERS`.
    ref
        A path, or a bare name without ``.yaml``.
    near
        Folder of the file that holds the reference; searched first.

    Raises
    ------
    SpecError
        If there is no such file; the message lists the shipped ones.

    Notes
    -----
    Order: *ref* as a path, from *near* then from the working directory; a file of that name in
    *near*, in the working directory or in its folder of that kind; the checkout that simnet runs
    from; the copy inside the installed package.
    """
    folder = FOLDERS[kind]
    here = [near] if near is not None else []
    text = str(ref)
    for base in (*here, Path.cwd()):
        path = base / text
        if _is_path(text) and path.is_file():
            return path
    if not _is_path(text):
        for base in (*here, Path.cwd(), Path.cwd() / folder, *(root / folder for root in _roots())):
            path = base / f"{text}.yaml"
            if path.is_file():
                return path
    raise SpecError(_missing(kind, text))


def is_about_collectives(ref: str | Path) -> bool:
    """Return whether a scenario's name or path leads to a question about collectives."""
    for kind in ("scenario", "collective"):
        try:
            path = find(kind, ref)
        except SpecError:
            continue
        if kind == "collective" and not _is_path(str(ref)):
            return True
        try:
            return bool(_COLLECTIVE_KEY.search(path.read_text("utf-8")))
        except (OSError, UnicodeDecodeError):  # whoever reads it as a file of its kind tells what is wrong
            return False
    return False


def data_file(ref: str, *, near: Path | None) -> Path:
    """Return the file that a path in another file leads to, from that file's folder or from the working directory.

    Raises
    ------
    SpecError
        If there is no such file.
    """
    for base in (*([near] if near is not None else []), Path.cwd()):
        if (base / ref).is_file():
            return base / ref
    raise SpecError(Problem(where=str(near or Path.cwd()), message="no such file", found=f'"{ref}"'))


def list_shipped(kind: str) -> tuple[Path, ...]:
    """Return the shipped files of *kind*, sorted; parts are looked for in sub-folders too."""
    pattern = "**/*.yaml" if kind == "part" else "*.yaml"
    for root in _roots():
        return tuple(sorted((root / FOLDERS[kind]).glob(pattern)))
    return ()


def shipped_file(path: str) -> Path:
    """Return a shipped file or folder by its path from the root, ``scenarios/validation/training_runs.csv``.

    Raises
    ------
    SpecError
        If simnet was installed without it.
    """
    for root in _roots():
        if (root / path).exists():
            return root / path
    raise SpecError(Problem(message="this file does not ship with the installed simnet", found=path))


def part_files() -> tuple[Path, ...]:
    """Return all files of parts: those under the working directory first, then the shipped ones."""
    own = sorted((Path.cwd() / FOLDERS["part"]).glob("**/*.yaml"))
    return tuple(dict.fromkeys((*own, *list_shipped("part"))))


def _roots() -> tuple[Path, ...]:
    """Return the folders that hold ``topologies/`` and ``scenarios/``: the checkout, then the packaged copy."""
    checkout = _PACKAGE.parent
    roots = [checkout] if (checkout / "pyproject.toml").is_file() else []
    packaged = _PACKAGE / "_library"
    return tuple(root for root in (*roots, packaged) if root.is_dir())


def _is_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml", ".json")) or "/" in text or "\\" in text


def _missing(kind: str, text: str) -> Problem:
    if _is_path(text) and (Path.cwd() / text).is_dir():
        return Problem(message=f"this is a folder, not a {kind} file", found=f'"{text}"')
    names = [path.stem for path in list_shipped(kind)]
    return Problem(
        message=f"no {kind} file of that name",
        found=f'"{text}"',
        allowed=f"a path, or one of {listed(names, near=text)}" if names else "a path to a YAML file",
        hint=did_you_mean(text.removesuffix(".yaml"), names),
    )
