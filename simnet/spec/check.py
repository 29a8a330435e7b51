"""What a file is, and whether it is right."""

from __future__ import annotations

from pathlib import Path

from simnet.errors import Problem, SpecError
from simnet.spec.load import build, expand, load_scenario, read_yaml
from simnet.spec.located import FROM, Located


def check_file(path: Path) -> str:
    """Return what the file is, in a few words.

    Raises
    ------
    SpecError
        With all its problems.
    """
    from simnet.spec.model import ModelSpec
    from simnet.spec.scenario import ScenarioSpec
    from simnet.spec.topology import TopologySpec
    from simnet.spec.workload import WorkloadSpec

    tree = read_yaml(path)
    kinds = {"scenario": ScenarioSpec, "topology": TopologySpec, "model": ModelSpec, "workload": WorkloadSpec}
    keys = _keys(tree)
    fits = {kind: len(keys & model.model_fields.keys()) for kind, model in kinds.items()}
    kind = max(fits, key=lambda name: fits[name])
    if fits[kind] == 0:
        raise SpecError(
            Problem(
                where=tree.where,
                message="neither scenario, topology, model nor workload",
                found=f"keys {', '.join(sorted(keys))}" if keys else "no keys",
            )
        )
    if kind == "scenario":
        num_cases = len(expand(load_scenario(path.absolute())))
        return f"scenario, {num_cases} cases"
    build(tree, kinds[kind])
    return kind


def _keys(tree: Located) -> set[str]:
    return tree.value.keys() - {FROM, "name"} if isinstance(tree.value, dict) else set()
