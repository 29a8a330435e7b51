"""What a file is, and whether it is right."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from simnet import library
from simnet.errors import Problem, SpecError
from simnet.spec.base import SpecModel
from simnet.spec.collective_error import CollectiveError
from simnet.spec.collective_question import CollectiveQuestion
from simnet.spec.collectives import CollectivesPart
from simnet.spec.compute import ComputePart
from simnet.spec.faults import FaultConstants
from simnet.spec.hugging_face import card, is_config
from simnet.spec.known_error import KnownErrorPart
from simnet.spec.load import build, expand, load_collective_question, load_scenario, read_yaml
from simnet.spec.located import FROM, Located
from simnet.spec.model import ModelSpec
from simnet.spec.parts import CablePart, GpuPart, NicPart, NodePart, NvSwitchPart, SwitchPart
from simnet.spec.scenario import ScenarioSpec
from simnet.spec.topology import TopologySpec
from simnet.spec.workload import WorkloadSpec


class PartsFile(SpecModel):
    """A file of parts by kind and name."""

    gpu: dict[str, GpuPart] = Field(default_factory=dict)
    """GPUs."""
    nvswitch: dict[str, NvSwitchPart] = Field(default_factory=dict)
    """NVSwitch chips."""
    nic: dict[str, NicPart] = Field(default_factory=dict)
    """Network adapters."""
    switch: dict[str, SwitchPart] = Field(default_factory=dict)
    """Switches of the scale-out network."""
    cable: dict[str, CablePart] = Field(default_factory=dict)
    """Cables with their optics."""
    node: dict[str, NodePart] = Field(default_factory=dict)
    """Nodes and racks."""


_KINDS: dict[str, type[SpecModel]] = {
    "parts": PartsFile,
    "scenario": ScenarioSpec,
    "question about collectives": CollectiveQuestion,
    "topology": TopologySpec,
    "model": ModelSpec,
    "workload": WorkloadSpec,
    "collective constants": CollectivesPart,
    "compute constants": ComputePart,
    "known errors": KnownErrorPart,
    "known errors of collectives": CollectiveError,
    "fault constants": FaultConstants,
}


_MAY_BUILD_ON = ("topology", "model", "workload")
"""Kinds of which a file may build on another with ``from``."""


def check_file(path: Path) -> str:
    """Return what the file is, in a few words.

    Raises
    ------
    SpecError
        With all its problems.
    """
    tree = read_yaml(path)
    if is_config(tree):
        build(card(tree), ModelSpec, kind="model")
        return "model, config.json of Hugging Face"
    kind = _kind(tree)
    if kind == "scenario":
        num_cases = len(expand(load_scenario(path.absolute())))
        return f"scenario, {num_cases} case{'s' if num_cases != 1 else ''}"
    if kind == "question about collectives":
        question = load_collective_question(path.absolute())
        return f"{kind}, {len(question.cases)} case{'s' if len(question.cases) != 1 else ''}"
    build(tree, _KINDS[kind], kind=kind if kind in _MAY_BUILD_ON else "")
    return kind


def is_scenario(path: Path) -> bool:
    """Return whether a file that was checked asks for training steps."""
    tree = read_yaml(path)
    return not is_config(tree) and _kind(tree) == "scenario"


def _kind(tree: Located) -> str:
    """Return the kind whose keys the file has, the first of equals."""
    keys = tree.value.keys() - {FROM, "name"} if isinstance(tree.value, dict) else set()
    fits = {kind: len(keys & model.model_fields.keys()) for kind, model in _KINDS.items()}
    fits |= {kind: fits[kind] + 1 for kind in _MAY_BUILD_ON if _builds_on(kind, tree)}
    best = max(fits, key=lambda kind: fits[kind])
    if fits[best] == 0:
        raise SpecError(
            Problem(
                where=tree.where,
                message="the keys are those of no kind of file",
                found=", ".join(sorted(keys)) or "no keys",
                allowed=f"one of {', '.join(_KINDS)}",
            )
        )
    return best


def _builds_on(kind: str, tree: Located) -> bool:
    """Return whether the file builds on one that is known under *kind*."""
    base = tree.child(FROM)
    if base is None or not isinstance(base.value, str):
        return False
    try:
        library.find(kind, base.value, near=base.folder)
    except SpecError:
        return False
    return True
