from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import orjson
import pytest

import simnet
from simnet import library
from simnet.analysis.result import Result
from simnet.runner import store
from simnet.runner.wholeness import fits
from simnet.spec.load import expand, load_scenario
from simnet.spec.scenario import CaseSpec
from simnet.topology import Census

SCENARIO = """\
name: quick
question: Does the folder hold what it says?
topology: {from: hgx-h100, nodes: 1}
workload:
  model: llama-3.1-8b
  sequence_length: 4096
  parallelism: {tp: 2}
  batch: {global_batch_size: 8}
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[CaseSpec, Path]:
    root = tmp_path_factory.mktemp("kept")
    (root / "quick.yaml").write_text(SCENARIO)
    (case,) = expand(load_scenario(root / "quick.yaml"))
    simnet.sweep([case], directory=root)
    return case, store.case_folder(root, case, "simulate")


@pytest.fixture
def copy(kept: tuple[CaseSpec, Path], tmp_path: Path) -> tuple[CaseSpec, Path]:
    case, source = kept
    folder = store.case_folder(tmp_path, case, "simulate")
    folder.mkdir(parents=True)
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return case, folder


def heals(case: CaseSpec, folder: Path) -> bool:
    """Whether the next run does not trust the folder, and makes it whole."""
    is_trusted = store.load_result(folder, case) is not None
    (outcome,) = simnet.sweep([case], directory=folder.parents[1])
    assert isinstance(outcome, Result)
    return not is_trusted and store.load_result(folder, case) is not None


def test_a_whole_folder_is_trusted(copy: tuple[CaseSpec, Path]) -> None:
    case, folder = copy
    assert store.load_result(folder, case) is not None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("engine", None),
        ("engine.events", "12"),
        ("census.switches", "none"),
        ("census.switches.leaf", None),
        ("census", {}),
        ("census.join", []),
        ("values", []),
        ("breakdown_s.compute", "0.1"),
        ("tokens_per_s", None),
        ("num_gpus", 8.5),
        ("num_gpus", True),
        ("assumptions", [1]),
        ("link_classes", None),
        ("link_classes", [{}]),
        ("memory.classes_bytes", {"runtime": "1"}),
        ("timeline", [5]),
        ("provenance.version", "9.9"),
        ("name", "other"),
        ("another", 1),
    ],
)
def test_a_partly_damaged_result_counts_as_none(copy: tuple[CaseSpec, Path], path: str, value: object) -> None:
    case, folder = copy
    data = json.loads((folder / "result.json").read_text())
    *parents, last = path.split(".")
    record = data
    for parent in parents:
        record = record[parent]
    record[last] = value
    (folder / "result.json").write_text(json.dumps(data))
    assert store.load_result(folder, case) is None


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "5", '"a"', '{"name": "quick"', "\0"])
def test_a_result_that_is_none_counts_as_none(copy: tuple[CaseSpec, Path], text: str) -> None:
    case, folder = copy
    (folder / "result.json").write_text(text)
    assert store.load_result(folder, case) is None


def test_a_damaged_result_is_healed(copy: tuple[CaseSpec, Path]) -> None:
    case, folder = copy
    before = (folder / "result.json").read_bytes()
    (folder / "result.json").write_bytes(before[:500])
    assert heals(case, folder)
    assert (folder / "result.json").read_bytes() == before


def test_a_deleted_trace_is_written_again(copy: tuple[CaseSpec, Path]) -> None:
    case, folder = copy
    before = (folder / "trace.json").read_bytes()
    (folder / "trace.json").unlink()
    assert heals(case, folder)
    assert (folder / "trace.json").read_bytes() == before


@pytest.mark.parametrize("name", [path.stem for path in library.list_shipped("topology")])
def test_the_census_of_every_shipped_machine_reads_back_whole(name: str) -> None:
    census = simnet.build_cluster(name).census()
    assert fits(orjson.loads(orjson.dumps(census.to_dict())), Census)
    assert not fits({**asdict(census), "gpus": "8"}, Census)


@pytest.mark.parametrize("name", ["v" * 400, "ä/../x", "", "…" * 200, "a\0b", "-"])
def test_a_folder_has_a_short_plain_name_of_its_own(kept: tuple[CaseSpec, Path], tmp_path: Path, name: str) -> None:
    case = kept[0].model_copy(update={"name": name})
    folder = store.case_folder(tmp_path, case, "simulate")
    assert folder.parent == tmp_path / "cases"
    assert folder.name.isascii()
    assert len(folder.name) < 200
    folder.mkdir(parents=True)
    assert folder != store.case_folder(tmp_path, case.model_copy(update={"name": name + "x"}), "simulate")


def test_what_cannot_be_written_is_named_by_its_own_path(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        store.write_atomically(target, b"{}")
    assert caught.value.filename == str(target)
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(OSError, match="No such file") as caught:
        store.write_atomically(tmp_path / "none" / "result.json", b"{}")
    assert caught.value.filename == str(tmp_path / "none" / "result.json")
