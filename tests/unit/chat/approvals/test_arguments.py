"""Edited arguments, against the schema of their tool."""

import pytest

from chat.approvals.arguments import check_arguments
from sessions_app.errors import ValidationFailed

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "n": {"type": "integer"},
        "lines": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "arguments", [{"path": "/tmp"}, {"path": "", "n": 3.0}, {"path": "x", "lines": ["a"]}]
)
def test_what_fits_is_let_through(arguments):
    check_arguments(arguments, SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "arguments"),
        ({"path": 3}, "arguments.path"),
        ({"path": "x", "n": True}, "arguments.n"),
        ({"path": "x", "lines": ["a", 1]}, "arguments.lines.1"),
        ({"path": "x", "other": 1}, "arguments"),
        ({"path": ["x" * 10_000]}, "arguments.path"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_name(arguments, field):
    with pytest.raises(ValidationFailed) as raised:
        check_arguments(arguments, SCHEMA)
    assert raised.value.details["field"] == field
    assert raised.value.message.startswith(f"{field}: ")
    assert len(raised.value.message) < 500


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": 3},
        {"$ref": "http://127.0.0.1:9/elsewhere.json"},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"properties": {"path": {"pattern": "("}}},
    ],
)
def test_a_schema_that_makes_no_sense_refuses_nothing(schema):
    check_arguments({"path": "x" * 100, "x" * 100: 1}, schema)


@pytest.mark.parametrize("branch", ["anyOf", "allOf", "oneOf"])
def test_branches_that_multiply_are_left_to_the_tool(branch):
    levels = {f"a{level}": {branch: [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(60)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**levels, "a60": {"required": ["missing"]}}}
    check_arguments({}, schema)  # 2 to the power of 60 ways to fail


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"path": {"pattern": "(x+x+)+y"}}},
        {"patternProperties": {"(x+x+)+y": False, "^x": False}, "additionalProperties": False},
    ],
)
def test_patterns_are_checked_however_they_are_written(schema):
    with pytest.raises(ValidationFailed):
        check_arguments({"path": "x" * 10_000, "x" * 100: 1}, schema)


def test_long_lists_of_arguments_are_checked():
    schema = {"properties": {"rows": {"type": "array", "items": {"type": "integer"}}}}
    rows = [*range(5000), "x"]
    with pytest.raises(ValidationFailed):
        check_arguments({"rows": rows}, schema)


def test_what_the_model_gave_and_nobody_edited_is_left_to_the_tool():
    of_model = {"path": None, "n": 1}
    check_arguments({"path": None, "n": 2}, SCHEMA, of_model=of_model)
    with pytest.raises(ValidationFailed) as raised:
        check_arguments({"path": None, "n": True}, SCHEMA, of_model=of_model)
    assert raised.value.details["field"] == "arguments.n"
    with pytest.raises(ValidationFailed):
        check_arguments({"n": 2}, SCHEMA, of_model=of_model)
