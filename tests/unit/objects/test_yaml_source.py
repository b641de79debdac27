"""YAML as Kubernetes reads it (sigs.k8s.io/yaml, goyaml.v2), and the line of every value."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.model.errors import BadInput
from netlab.objects import yaml_source
from netlab.objects.yaml_source import (
    LIMIT_BYTES,
    LIMIT_DEPTH,
    Document,
    Mapping,
    Sequence,
    Source,
    documents,
    plain_scalar,
)


def read(text: str | bytes) -> list[Document]:
    return list(documents(Source("lab.yaml", text.encode() if isinstance(text, str) else text)))


def values(text: str | bytes) -> list[object]:
    return [document.value for document in read(text)]


def value(text: str) -> Any:
    (only,) = values(text)
    return only


def fault(text: str | bytes) -> str:
    """What is said of a text that is refused."""
    with pytest.raises(BadInput) as caught:
        read(text)
    assert caught.value.text.zh
    return caught.value.text.en


# Values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("nULL", "nULL"),
        *((word, True) for word in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")),
        *((word, False) for word in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")),
        ("tRUE", "tRUE"),
        ("yEs", "yEs"),
        ("0", 0),
        ("-0", 0),
        ("80", 80),
        ("+80", 80),
        ("-80", -80),
        ("1_000", 1000),
        ("010", 8),
        ("0777", 511),
        ("-010", -8),
        ("0o17", 15),
        ("0O17", 15),
        ("0x1F", 31),
        ("0X1f", 31),
        ("-0x1f", -31),
        ("0b101", 5),
        ("0B101", 5),
        ("08", 8.0),
        ("09.5", 9.5),
        ("0o8", "0o8"),
        ("0x", "0x"),
        ("0b2", "0b2"),
        ("9223372036854775807", 2**63 - 1),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", float(2**64)),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", -float(2**63)),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("+.5", 0.5),
        ("-1.5e3", -1500.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("1_0.2_5", 10.25),
        ("._5", "._5"),
        (".5_0", ".5_0"),
        ("1e", "1e"),
        ("1e999", "1e999"),
        ("e5", "e5"),
        (".", "."),
        ("-", "-"),
        ("+", "+"),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("1.2.3", "1.2.3"),
        ("10.96.0.1", "10.96.0.1"),
        ("10.96.0.0/16", "10.96.0.0/16"),
        ("30000-32767", "30000-32767"),
        ("2001-12-14", "2001-12-14"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("100m", "100m"),
        ("12e3Mi", "12e3Mi"),
        ("=", "="),
        ("<<", "<<"),
        ("٣", "٣"),
    ],
)
def test_a_plain_scalar_is_what_kubernetes_makes_of_it(text: str, expected: object) -> None:
    found = plain_scalar(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, "1" + "0" * 400 + ".5"])
def test_a_number_that_no_float_can_hold_is_text(text: str) -> None:
    assert plain_scalar(text) == text


@pytest.mark.parametrize("text", [".inf", "-.INF", "+.Inf", ".nan", ".NaN"])
def test_what_json_cannot_write_is_refused_with_its_line(text: str) -> None:
    assert fault(f"a: 1\nb: [{text}]\n").startswith("lab.yaml:2: not readable as YAML: json: unsupported value: ")
    assert value(f"a: '{text}'") == {"a": text}


@pytest.mark.parametrize("text", ["'80'", '"80"', "!!str 80", "|-\n  80", ">-\n  80"])
def test_quoted_and_block_scalars_are_text(text: str) -> None:
    assert value(f"a: {text}\n") == {"a": "80"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("!!int '80'", 80), ("!!float 1.5", 1.5), ("!!bool 'yes'", True), ("!!null ''", None), ("!!str", "")],
)
def test_the_tags_of_yaml_itself(text: str, expected: object) -> None:
    assert value(f"a: {text}\n") == {"a": expected}


@pytest.mark.parametrize("text", ["!mine x", "!!python/name:os.system x", "!!int x", "!mine [x]", "!!set {x}"])
def test_other_tags_are_refused_with_their_line(text: str) -> None:
    assert fault(f"a: 1\nb: {text}\n").startswith("lab.yaml:2: not readable as YAML: the tag ")


def test_keys_are_text_as_in_json() -> None:
    assert value("80: a\ntrue: b\nyes1: c\n~: d\n1.5: e\n010: f\n'no': g\n") == {
        "80": "a",
        "true": "b",
        "yes1": "c",
        "null": "d",
        "1.5": "e",
        "8": "f",
        "no": "g",
    }


@pytest.mark.parametrize("text", ["? [a]\n: b\n", "? {a: b}\n: c\n", "a: &x {b: c}\n*x : d\n", "{[a]: b}"])
def test_a_key_is_no_list_and_no_mapping(text: str) -> None:
    assert "a key can be a word or a number" in fault(text)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(["y", "no", "~", "010", "1e3", "2026-01-01", ".inf", "<<", "- a", "a: b", "#", "\t", "\x85", "😀"]),
)
keys = st.text(max_size=6)


def trees_of(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Mappings and lists, nested."""

    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(st.lists(inner, min_size=1, max_size=3), st.dictionaries(keys, inner, min_size=1, max_size=3))

    return around(st.recursive(leaves, around, max_leaves=12))


@settings(max_examples=80, deadline=None)
@given(tree=trees_of(scalars, keys), indent=st.sampled_from([None, 2, "\t"]))
def test_json_reads_as_json(tree: object, indent: int | str | None) -> None:
    assert value(json.dumps(tree, indent=indent)) == tree


RAW = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn", "Zl", "Zp"]), max_size=12)


@settings(max_examples=80, deadline=None)
@given(tree=trees_of(RAW, RAW))
def test_json_that_escapes_nothing_reads_as_json(tree: object) -> None:
    assert value(json.dumps(tree, ensure_ascii=False)) == tree


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "\\ud83d\\ude00"}', "😀"),
        ('{"a": "\\\\ud83d\\\\ude00"}', "\\ud83d\\ude00"),
        ('{"a": "\\\\\\ud83d\\ude00\\u4e2d"}', "\\😀中"),
        ('{"a": "\\/\\u0041\\n"}', "/A\n"),
    ],
)
def test_escapes_of_json(text: str, expected: str) -> None:
    assert value(text) == json.loads(text) == {"a": expected}


def test_half_an_escape_is_refused_as_yaml_refuses_it() -> None:
    for text in ('{"a": "\\ud83d"}', '{"a": "\\\\ud83d\\ude00"}'):
        assert "invalid Unicode character escape code" in fault(text)


def test_in_yaml_such_an_escape_stays_what_it_is() -> None:
    assert value("a: \\ud83d\\ude00") == {"a": "\\ud83d\\ude00"}


def test_json_indented_with_tabs() -> None:
    assert value('{\n\t"a":\t[\n\t\t1,\n\t\t2\n\t]\n}\n') == {"a": [1, 2]}


WORDS = st.text("ab-:#'\"\n,[]{}&*!|>%@ \\?", max_size=8)


@settings(max_examples=80, deadline=None)
@given(tree=trees_of(st.one_of(WORDS, st.integers(-(10**6), 10**6), st.booleans(), st.none()), WORDS))
def test_what_pyyaml_writes_reads_back(tree: object) -> None:
    assert values(yaml.safe_dump(tree)) == [tree]
    assert values(yaml.safe_dump(tree, default_flow_style=True)) == [tree]


# Streams


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n# only a comment\n", []),
        ("---\n---\n...\n", []),
        ("a: 1\n---\nb: 2\n", [(1, {"a": 1}), (3, {"b": 2})]),
        ("---\na: 1\n---\n\n# note\nb: 2\n---\n", [(2, {"a": 1}), (6, {"b": 2})]),
        ("--- {a: 1}\n--- # note\nb: 2\n", [(1, {"a": 1}), (3, {"b": 2})]),
        ("a: 1\n...\n# between\n---\nb: 2\n...\n", [(1, {"a": 1}), (5, {"b": 2})]),
        ("null\n---\nb: 2\n", [(3, {"b": 2})]),
        ("a: |\n  x\n  ---\n  y\n---\nb: 2\n", [(1, {"a": "x\n---\ny\n"}), (6, {"b": 2})]),
        ("a: 1\n--- x\n", [(1, {"a": 1}), (2, "x")]),
        ("%YAML 1.1\n---\na: 1\n", [(3, {"a": 1})]),
        ("%YAML 1.2\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n", [(3, {"a": 1}), (7, {"b": 2})]),
        ("# note\n%YAML 1.1\n# note\n---\na: 1\n", [(5, {"a": 1})]),
        ("[a, b]\n---\n80\n", [(1, ["a", "b"]), (3, 80)]),
    ],
)
def test_documents_of_a_stream(text: str, expected: list[tuple[int, object]]) -> None:
    assert [(each.line, each.value) for each in read(text)] == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_divide_lines_and_documents(end: str) -> None:
    text = end.join(["a: 1", "b: |", "  x", "  y", "---", "c: [", "  1]", ""])
    first, second = read(text)
    assert (first.value, second.value) == ({"a": 1, "b": "x\ny\n"}, {"c": [1]})
    assert [first.locate("b"), second.line, second.locate("c[0]")] == [2, 6, 7]


def test_byte_order_marks_are_passed_over() -> None:
    assert values(b"\xef\xbb\xbfa: 1\n---\n\xef\xbb\xbfb: 2\n") == [{"a": 1}, {"b": 2}]


def test_json_behind_a_byte_order_mark_is_json() -> None:
    assert value('\ufeff{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


def test_anchors_end_with_their_document() -> None:
    assert fault("a: &x 1\n---\nb: *x\n") == "lab.yaml:3: not readable as YAML: found undefined alias x"


def test_documents_before_a_fault_are_there() -> None:
    stream = documents(Source("lab.yaml", b"a: 1\n---\nb: [\n"))
    assert next(stream).value == {"a": 1}
    with pytest.raises(BadInput):
        next(stream)


# Lines


LOCATED = """\
# one
apiVersion: v1
metadata:
  name: web
  annotations: {netlab/ips: 10.0.0.1,
    "a.b/c": x}
  labels:
    app.kubernetes.io/name: web
spec:
  ports:
  - port: 80
    nodePort: 30080
  - {port: 81,
     name: b}
  selector: &s
    app: web
  other: *s
  nested:
  - - 1
    - 2
  - [3,
    4]
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 2),
        ("apiVersion", 2),
        ("metadata", 3),
        ("metadata.name", 4),
        ("metadata.name.more", 4),
        ("metadata.annotations[netlab/ips]", 5),
        ("metadata.annotations[a.b/c]", 6),
        ("metadata.annotations[none]", 5),
        ("metadata.labels[app.kubernetes.io/name]", 8),
        ("spec.ports", 10),
        ("spec.ports[0]", 11),
        ("spec.ports[0].port", 11),
        ("spec.ports[0].nodePort", 12),
        ("spec.ports[1]", 13),
        ("spec.ports[1].name", 14),
        ("spec.ports[2].name", 10),
        ("spec.ports[1].protocol", 13),
        ("spec.selector.app", 16),
        ("spec.other", 17),
        ("spec.other.app", 16),
        ("spec.nested[0][1]", 20),
        ("spec.nested[1][1]", 22),
        ("status.phase", 2),
    ],
)
def test_the_line_of_a_field_or_of_the_nearest_one_above(path: str, line: int) -> None:
    (document,) = read(LOCATED)
    assert document.locate(path) == line


def lines_of(value: object, above: str = "") -> Iterator[tuple[str, int]]:
    """Every path in a value with the line that it is said to be in."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield f"{above}.{key}", value.lines[key]
            yield from lines_of(each, f"{above}.{key}")
    elif isinstance(value, Sequence):
        for index, each in enumerate(value):
            yield f"{above}[{index}]", value.lines[index]
            yield from lines_of(each, f"{above}[{index}]")


@settings(max_examples=60, deadline=None)
@given(tree=trees_of(st.integers(0, 9), st.sampled_from("abc")))
def test_a_value_stands_in_the_line_that_is_told(tree: object) -> None:
    """Written one value a line; an item that is a mapping or a list itself begins in the line below its dash."""

    def write(value: object, indent: str) -> Iterator[str]:
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, each in inside:
            head = f"{indent}{key}:" if isinstance(value, dict) else f"{indent}-"
            yield f"{head} # begins here" if isinstance(each, dict | list) else f"{head} {each}"
            yield from write(each, indent + "  ")

    lines = list(write(tree, ""))
    (document,) = read("\n".join(lines))
    found = list(lines_of(document.value))
    assert len(found) == len(lines)
    for number, (path, line) in enumerate(found, 1):
        below = path.endswith("]") and lines[number - 1].endswith("here")
        assert line == number + below
        assert document.locate(path.lstrip(".")) == line


# Aliases and merge keys


def test_aliases_unfold() -> None:
    same = [1, {"b": 2}]
    assert value("a: &x [1, {b: 2}]\nc: *x\nd: &w z\ne: *w\n") == {"a": same, "c": same, "d": "z", "e": "z"}


def test_the_latest_anchor_of_a_name_counts() -> None:
    assert value("[&a 1, *a, &a 2, *a]") == [1, 1, 2, 2]


@pytest.mark.parametrize("text", ["&a [*a]", "&a {b: *a}", "a: &x {b: {c: [*x]}}", "&a {*a : b}"])
def test_a_value_cannot_hold_itself(text: str) -> None:
    assert "an alias inside the value that it stands for" in fault(text)


MERGED = """\
base: &base
  port: 80
  name: a
more: &more {name: b, protocol: UDP}
one:
  <<: *base
  name: c
list:
  name: d
  <<: [*base, *more]
"""


def test_merge_keys_bring_what_is_missing_with_its_line() -> None:
    (document,) = read(MERGED)
    found = document.value
    assert isinstance(found, Mapping)
    assert found["one"] == {"name": "c", "port": 80}
    assert found["list"] == {"name": "d", "port": 80, "protocol": "UDP"}
    assert list(found["list"]) == ["name", "port", "protocol"]
    assert [document.locate(path) for path in ("one.port", "one.name", "list.protocol")] == [2, 7, 4]


def test_of_several_merged_mappings_the_first_counts() -> None:
    assert value("{a: &a {x: 1}, b: &b {x: 2, z: 2}, c: {<<: [*a, *b]}}")["c"] == {"x": 1, "z": 2}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert value("a: &a {b: 1}\nc: {'<<': *a}\n")["c"] == {"<<": {"b": 1}}


@pytest.mark.parametrize("text", ["a: {<<: 1}", "a: {<<: }", "a: {<<: [{b: 1}, c]}"])
def test_only_mappings_merge(text: str) -> None:
    assert fault(text) == "lab.yaml:1: not readable as YAML: map merge requires map or sequence of maps as the value"


# Limits


def test_alias_bombs_are_refused_while_reading() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    began = time.monotonic()
    message = fault("\n".join(lines))
    assert "has more than 2000000 values, aliases unfolded" in message
    assert message.startswith("lab.yaml:7:")
    assert time.monotonic() - began < 2


def test_the_last_alias_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_source, "LIMIT_VALUES", 25)
    ten = "a: &a [1, 2, 3, 4, 5, 6, 7, 8]\n"
    assert value(f"{ten}b: *a\n")["b"] == list(range(1, 9))
    assert "more than 25 values" in fault(f"{ten}b: *a\nc: *a\n")
    assert "more than 25 values" in fault(f"b: &b [0, 0]\n{ten}c: [*a]\n")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_depth_is_limited() -> None:
    assert value(nested(LIMIT_DEPTH)) is not None
    assert fault(f"\n{nested(LIMIT_DEPTH + 1)}") == "lab.yaml:2: nested deeper than 100 levels"
    assert "nested deeper" in fault("{a: " * (LIMIT_DEPTH + 1) + "}" * (LIMIT_DEPTH + 1))


def test_depth_cannot_be_hidden_behind_aliases() -> None:
    half = LIMIT_DEPTH // 2
    assert value(f"a: &a {nested(half - 1)}\nb: {'[' * half}*a{']' * half}\n") is not None
    message = fault(f"a: &a {nested(half)}\nb: {'[' * half}*a{']' * half}\n")
    assert message == "lab.yaml:2: nested deeper than 100 levels"
    chain = [f"a{n}: &a{n} [[[*a{n - 1}]]]" for n in range(1, 100)]
    assert "nested deeper" in fault("\n".join(["a0: &a0 []", *chain]))
    merged = [f"a{n}: &a{n} {{k: {{<<: *a{n - 1}}}}}" for n in range(1, 200)]
    assert "nested deeper" in fault("\n".join(["a0: &a0 {}", *merged]))


def test_size_is_limited_before_anything_is_read() -> None:
    text = b"a: |\n  " + b"x" * LIMIT_BYTES
    assert fault(text) == f"lab.yaml: the input is {len(text)} bytes; at most {LIMIT_BYTES} bytes are read"


def test_a_huge_scalar_is_read_quickly() -> None:
    began = time.monotonic()
    assert len(value(f"a: |\n  {'x' * 4_000_000}\nb: 1\n")["a"]) == 4_000_001
    assert len(value(f"a: '{'9' * 1_000_000}'\n")["a"]) == 1_000_000
    assert value(f"a: {'9' * 100_000}\n") == {"a": "9" * 100_000}
    assert time.monotonic() - began < 3


# Faults


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", 'lab.yaml:3: duplicate field "a" (first in line 1)'),
        ("x:\n  - {a: 1, a: 2}\n", 'lab.yaml:2: duplicate field "a" (first in line 2)'),
        ("80: a\n'80': b\n", 'lab.yaml:2: duplicate field "80" (first in line 1)'),
        ("---\na: 1\n---\n\nb: 1\nb: 2\n", 'lab.yaml:6: duplicate field "b" (first in line 5)'),
        ("a:\n\tb: 1\n", "lab.yaml:2: a tab where YAML allows only spaces"),
        ("x: 1\n---\na:\n  - b\n\t- c\n", "lab.yaml:5: a tab where YAML allows only spaces"),
        ("a: &x\n  b: *y\n", "lab.yaml:2: not readable as YAML: found undefined alias y"),
    ],
)
def test_a_fault_names_its_line(text: str, expected: str) -> None:
    assert fault(text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1, 2\nb: 3\n", 2),
        ("a: 'x\n\nb: 1\n", 4),
        ("a: b: c\n", 1),
        ("x: 1\n---\n\na: }\n", 4),
        ("a: 1\n b: 2\n", 2),
        ("%YAML 3.0\n---\na: 1\n", 1),
        ("a: 1\nb: \x07\n", 2),
        ("a: 1\n---\nb: \x00\n", 3),
        ("{a: 1} {b: 2}\n", 1),
        ("a: %x\n", 1),
        ("a: @x\n", 1),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_line(text: str, line: int) -> None:
    assert fault(text).startswith(f"lab.yaml:{line}: not readable as YAML: ")


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"a: \xff\n", 3),
        (b"\xef\xbb\xbfa: \xff\n", 6),
        ("a: 1".encode("utf-16"), 0),
        (b"a: \xc3", 3),
        (b"\xed\xa0\x80", 0),
    ],
)
def test_what_is_no_utf_8_is_refused(data: bytes, offset: int) -> None:
    assert fault(data) == f"lab.yaml: not UTF-8 text (byte {offset})"


def test_a_fault_leaves_the_garbage_collector_as_it_was() -> None:
    for begin in (gc.enable, gc.disable):
        begin()
        before = gc.isenabled()
        fault("a: [")
        read("a: 1\n---\nb: 2\n")
        assert gc.isenabled() is before
    gc.enable()


def test_the_collector_works_between_two_documents() -> None:
    for document in documents(Source("lab.yaml", b"a: 1\n---\nb: 2\n")):
        assert document.value
        assert gc.isenabled()
