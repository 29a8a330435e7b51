from __future__ import annotations

import subprocess
import sys

import pytest

import simnet

PUBLIC = ["Result", "build_cluster", "errors", "load_scenario", "run", "simulate_collective", "sweep"]


def test_the_public_names_are_these_and_no_others():
    assert simnet.__all__ == PUBLIC
    assert dir(simnet) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_with_a_docstring(name):
    assert getattr(simnet, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        simnet.nonsense  # noqa: B018 (the look-up is the test)


def test_importing_simnet_imports_nothing_heavy():
    code = "import sys, simnet; assert not {'numpy', 'networkx', 'matplotlib', 'pydantic', 'simpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
