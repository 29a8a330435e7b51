from __future__ import annotations

import time

import pytest

from simnet.errors import SpecError
from simnet.spec.read import MAX_FILE_BYTES, read_text, read_yaml


def problems(text):
    with pytest.raises(SpecError) as caught:
        read_text(text, "f.yaml")
    return caught.value.problems


def test_scalars_follow_yaml_1_2():
    data = read_text("{a: 1e-6, b: no, c: 1:30, d: 2025-06-30, e: 0x10, f: 0o17, g: true, h: , i: '8', j: 1_000}", "f")
    assert data.plain() == {
        "a": 1e-6, "b": "no", "c": "1:30", "d": "2025-06-30", "e": 16, "f": 15, "g": True, "h": None, "i": "8",
        "j": 1000,
    }  # fmt: skip


def test_every_key_and_value_knows_its_line_and_column():
    tree = read_text("a:\n  b: [1, {c: 2}]\n", "f.yaml")
    inner = tree.nearest(("a", "b", 1, "c"))
    assert (inner.where_key, inner.where) == ("f.yaml:2:11", "f.yaml:2:14")
    assert tree.nearest(("a", "missing", "x")).where_key == "f.yaml:1:1"


def test_all_faults_of_a_text_are_told_at_once():
    found = problems("a: 1\na: 2\nb: .nan\nc: !!python/object:os.system x\nd: {e: 1, e: 2}\n")
    assert [problem.where for problem in found] == ["f.yaml:2:1", "f.yaml:3:4", "f.yaml:4:4", "f.yaml:5:11"]
    assert 'key "a" stands twice' in found[0].message
    assert found[0].hint == "the first one is at f.yaml:1:1"


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("", "empty", "f.yaml:1:1"),
        ("# only a comment\n", "empty", "f.yaml:1:1"),
        ("a: [1", "not YAML", "f.yaml:1:6"),
        ("a: b: c", "not YAML", "f.yaml:1:5"),
        ("a:\n\tb: 1", "not YAML", "f.yaml:2:1"),
        ("--- 1\n--- 2\n", "not YAML", "f.yaml:2:1"),
        ("a: *b", "not YAML", "f.yaml:1:4"),
        ("a: 1\nb: \x00", "not YAML", "f.yaml:2:1"),
        ("a: .inf", "finite", "f.yaml:1:4"),
        ("a: 1e999", "finite", "f.yaml:1:4"),
        (f"a: {'9' * 5000}", "cannot be read", "f.yaml:1:4"),
        ("[1]: 2", "a key is text", "f.yaml:1:1"),
        ("<<: {a: 1}", "merge keys are not read", "f.yaml:1:1"),
        ('a: "\\ud800"', "surrogate", "f.yaml:1:4"),
        ("&a [*a]", "alias inside itself", "f.yaml:1:1"),
        ("[" * 100 + "]" * 100, "nested too deeply", "f.yaml:1:42"),
        ("[" * 600 + "]" * 600, "nested too deeply", "f.yaml"),
    ],
)
def test_hostile_text_is_refused_with_its_place(text, message, where):
    (problem,) = problems(text)
    assert message in problem.message
    assert problem.where == where


def test_a_bomb_of_aliases_is_defused_quickly():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    start = time.process_time()
    (problem,) = problems("\n".join(lines))
    assert "too many values" in problem.message
    assert time.process_time() - start < 10


def test_an_alias_that_is_used_twice_is_read_twice():
    assert read_text("a: &x {b: 1}\nc: *x\n", "f").plain() == {"a": {"b": 1}, "c": {"b": 1}}


def test_bytes_that_are_no_utf8_are_named_with_their_place(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(SpecError, match=r"latin.yaml:2:7: not UTF-8 text; found byte 0xe9"):
        read_yaml(path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(path).plain() == {"a": 1}


def test_what_is_no_readable_file_is_refused(tmp_path):
    with pytest.raises(SpecError, match="this is a folder"):
        read_yaml(tmp_path)
    with pytest.raises(SpecError, match="cannot be read: no such file"):
        read_yaml(tmp_path / "none.yaml")
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SpecError, match="file too large"):
        read_yaml(big)


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("a: 1\n")
    assert read_yaml(path).plain() == {"a": 1}
    path.write_text("a: 234\n")
    assert read_yaml(path).plain() == {"a": 234}


def test_json_is_yaml_too():
    assert read_text('{"a": [1, 2.5, null, true, "x"]}', "f").plain() == {"a": [1, 2.5, None, True, "x"]}
