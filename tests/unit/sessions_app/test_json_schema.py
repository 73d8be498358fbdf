"""Values against schemas of others, which may be wrong, hostile or both."""

import socket
import subprocess
import time

import pytest

from sessions_app.json_schema import Fault, find_fault, find_faults, find_schema_fault
from sessions_app.short_process import SECONDS

OPTIONAL = {"anyOf": [{"type": "null"}, {"properties": {"n": {"type": "integer"}}}]}


@pytest.mark.parametrize(
    ("schema", "value", "path", "words"),
    [
        ({"type": "string"}, 3, "", 'it is not of type "string"'),
        ({"required": ["path"]}, {}, "", '"path" is a required property'),
        ({"items": {"enum": ["a", "b"]}}, ["a", "x"], "1", 'it is not one of "a" or "b"'),
        ({"properties": {"x": OPTIONAL}}, {"x": {"n": "1"}}, "x.n", 'it is not of type "integer"'),
        ({"uniqueItems": True}, [1, 1], "", "it has non-unique elements"),
        ({"anyOf": [{"minimum": 3}, False]}, 1, "", "it is not valid under any of"),
        ({"pattern": "^a+$"}, "b", "", 'it does not match "^a+$"'),
    ],
)
def test_a_fault_names_its_place_and_what_is_wanted(schema, value, path, words):
    fault = find_fault(value, schema)
    assert fault is not None
    assert fault.path == path
    assert fault.words.startswith(words)


def test_several_faults_are_found_and_may_show_the_values():
    schema = {"items": {"type": "integer"}}
    value = ["seven", 2, "nine", "ten"]
    assert find_faults(value, schema, most=2, shows_values=True) == [
        Fault("0", '"seven" is not of type "integer"'),
        Fault("2", '"nine" is not of type "integer"'),
    ]
    assert find_faults([1], schema, most=2) == []


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "number of years"}, '"number of years" is not'),
        ({"properties": {"a": {"$ref": "https://example.com/a.json"}}}, "https://example.com/a.j"),
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"pattern": "("}, "regex"),
    ],
)
def test_a_schema_that_can_not_be_used_says_why(schema, words):
    fault = find_schema_fault(schema)
    assert fault is not None
    assert words in fault.words
    assert find_schema_fault({"type": "object", "$defs": {"a": {}}, "$ref": "#/$defs/a"}) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object"}, ["x" * 100_000]),
        ({"enum": [["x" * 100_000]] * 10}, 1),
        ({"const": "x" * 100_000}, "y" * 100_000),
        ({"required": ["x" * 100_000]}, {}),
        ({"properties": {"a": {}}, "additionalProperties": False}, dict.fromkeys("bcdefg" * 9, 1)),
        ({"additionalProperties": {"type": "null"}}, {"x" * 100_000: 1}),
        ({"not": {"enum": ["x" * 100_000]}}, "x" * 100_000),
    ],
)
def test_words_stay_short_whatever_the_schema_and_the_value(schema, value):
    fault = find_fault(value, schema)
    assert fault is not None
    assert len(fault.path) + len(fault.words) < 700


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [{"n": n, "x": [n]} for n in range(50_000)]),
        ({"type": "array", "items": {"enum": [{"n": n} for n in range(2000)]}}, [{"n": 9}] * 2000),
        ({"required": [str(n) for n in range(50_000)]}, {str(n): 1 for n in range(50_000)}),
        ({"oneOf": [{"const": n} for n in range(50_000)]}, 4),
        ({"pattern": "^(a+)+$"}, "a" * 50_000),
    ],
)
def test_large_values_and_large_schemas_are_checked(schema, value):
    assert find_fault(value, schema) is None


def nested(levels, value):
    for _ in range(levels):
        value = {"properties": {"x": value}}
    return value


def multiplying(branch):
    levels = {f"a{level}": {branch: [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(60)}
    return {"$ref": "#/$defs/a0", "$defs": {**levels, "a60": {"required": ["missing"]}}}


@pytest.mark.parametrize(
    "schema",
    [multiplying("anyOf"), multiplying("allOf"), multiplying("oneOf"), nested(50_000, {})],
    ids=["anyOf", "allOf", "oneOf", "deep"],
)
def test_a_schema_that_never_ends_is_given_up_in_time(schema):
    begun = time.monotonic()
    assert find_faults({}, schema) is None
    assert time.monotonic() - begun < 2 * SECONDS


def test_no_other_document_is_opened():
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        url = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/schema.json"
        assert find_fault({}, {"$ref": url}) is None
        assert find_fault({}, {"$schema": url, "$dynamicRef": url}) is None
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    assert find_fault({}, {"$ref": "file:///etc/hostname"}) is None


@pytest.fixture
def start_none(monkeypatch):
    """Return what lets no more processes start, which check."""

    def refuse(*_args, **_options):
        raise AssertionError("it was checked again")

    return lambda: monkeypatch.setattr(subprocess, "run", refuse)


def test_what_was_checked_is_known_when_it_is_asked_again(start_none):
    schema = {**multiplying("anyOf"), "title": "asked twice"}
    assert find_fault({}, schema) is None
    start_none()
    assert find_faults({}, schema) is None


def test_what_was_checked_is_not_checked_again_however_many_values_there_are(start_none):
    schema = {"type": "string"}
    first = [find_fault(value, schema) for value in range(20)]
    assert all(first)
    start_none()
    assert [find_fault(value, schema) for value in range(20)] == first
