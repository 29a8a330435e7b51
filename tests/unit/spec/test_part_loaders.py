"""Files of constants: a fault in one is told with its line and column."""

from __future__ import annotations

import pytest

from simnet.errors import SpecError
from simnet.library import find
from simnet.spec import collective_error, collectives, compute, faults, known_error


@pytest.mark.parametrize(
    ("name", "right", "wrong", "path", "load"),
    [
        ("compute", "gemm_k_half:", "gemm_k_halv:", "laws.gemm_k_halv", compute.load_compute.__wrapped__),
        ("collectives", "nccl_version:", "nccl_versoin:", "nccl_versoin", collectives._load.__wrapped__),
        ("known_error", "median:", "medain:", "records.0.medain", known_error._load.__wrapped__),
        ("collective_error", "median:", "medain:", "sizes.0.medain", collective_error.collective_error.__wrapped__),
        ("faults", "bonded_ports:", "bonded_prots:", "bonded_prots", faults.load_faults.__wrapped__),
    ],
)
def test_a_mistyped_key_is_told_with_its_place(tmp_path, monkeypatch, name, right, wrong, path, load):
    folder = tmp_path / "topologies" / "parts"
    folder.mkdir(parents=True)
    text = find("part", name).read_text(encoding="utf-8")
    (folder / f"{name}.yaml").write_text(text.replace(right, wrong, 1), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    line = next(number for number, one in enumerate(text.splitlines(), 1) if right in one)
    with pytest.raises(SpecError) as caught:
        load()
    problem = next(one for one in caught.value.problems if one.hint)
    assert f"{name}.yaml:{line}:" in problem.where
    assert problem.path == path
    assert problem.hint == f'did you mean "{right[:-1]}"?'
