from __future__ import annotations

import pickle

from simnet import errors
from simnet.errors import Problem, did_you_mean, listed


def test_a_problem_reads_as_place_path_message_found_allowed_hint():
    problem = Problem(
        where="s.yaml:6:3", path="link.bandwith", message="unknown key", found="4", allowed="bandwidth", hint="look up"
    )
    assert str(problem) == "s.yaml:6:3 link.bandwith: unknown key; found 4; allowed: bandwidth; hint: look up"
    assert str(Problem(message="no")) == "no"


def test_a_name_that_goes_on_as_typed_is_meant_before_a_similar_one():
    assert did_you_mean("dgx-h100", ["hgx-h100", "dgx-h100-superpod"]) == 'did you mean "dgx-h100-superpod"?'
    assert did_you_mean("hgx-h10", ["hgx-h100-modular", "hgx-h100"]) == 'did you mean "hgx-h100"?'
    assert did_you_mean("ok", ["oklahoma"]) == ""


def test_an_error_reads_as_one_line_for_each_problem():
    error = errors.SpecError(Problem(message="one"), Problem(message="two", where="x"))
    assert str(error) == "one\nx: two"


def test_exit_codes_tell_bad_input_from_a_no_and_from_a_bug():
    assert errors.SpecError.exit_code == errors.NoPathError.exit_code == errors.LayoutError.exit_code == 2
    assert errors.DoesNotFitError.exit_code == 1
    assert errors.PhysicsError.exit_code == 3


def test_an_error_crosses_a_process_border_with_its_problems():
    error = errors.NoPathError(Problem(message="no path", found="m0/d0/gpu0 to m1/d0/gpu0"))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own bytes)
    assert type(copy) is errors.NoPathError
    assert copy.problems == error.problems


def test_a_misspelt_word_is_matched_whatever_its_case_and_dashes():
    assert did_you_mean("Global-Batch-Sizes", ["micro_batch_size", "global_batch_size"]) == (
        'did you mean "global_batch_size"?'
    )
    assert did_you_mean("xyzzy", ["racks"]) == ""


def test_a_long_list_is_cut_to_the_likest_names():
    names = [f"model-{index}" for index in range(100)] + ["llama"]
    text = listed(names, near="lama")
    assert "llama" in text
    assert text.endswith("and 89 more")
