from __future__ import annotations

import pytest

from simnet import library
from simnet.errors import SpecError


def test_a_bare_name_finds_the_shipped_model():
    assert library.find("model", "llama-3.1-405b").name == "llama-3.1-405b.yaml"


def test_a_file_beside_the_reference_wins_over_the_shipped_one(tmp_path):
    own = tmp_path / "llama-3.1-405b.yaml"
    own.write_text("name: mine\n")
    assert library.find("model", "llama-3.1-405b", near=tmp_path) == own


def test_a_file_of_the_working_directory_wins_over_the_shipped_one(tmp_path, monkeypatch):
    (tmp_path / "topologies").mkdir()
    own = tmp_path / "topologies" / "mine.yaml"
    own.write_text("name: mine\n")
    monkeypatch.chdir(tmp_path)
    assert library.find("topology", "mine") == own
    assert library.find("topology", "topologies/mine.yaml") == own


def test_an_unknown_name_lists_its_kin_and_suggests_one():
    with pytest.raises(SpecError) as caught:
        library.find("model", "llama-3.1-405")
    (problem,) = caught.value.problems
    assert problem.hint == 'did you mean "llama-3.1-405b"?'
    assert "llama-3.1-70b" in problem.allowed


def test_a_folder_is_called_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").mkdir()
    with pytest.raises(SpecError, match="this is a folder"):
        library.find("scenario", "x.yaml")


def test_shipped_files_are_listed_in_order():
    models = library.list_shipped("model")
    assert list(models) == sorted(models)
    assert len(models) > 40
