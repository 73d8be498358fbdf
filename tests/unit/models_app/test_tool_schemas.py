"""References in tool schemas are written out, whatever they look like."""

import time
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for
from pydantic import BaseModel, Field

from models_app.tool_schemas import (
    MOST_OF_A_SCHEMA,
    MOST_WRITTEN_OUT,
    bounded,
    inline_all,
    inline_references,
)


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    lines: list[str] = []


class Person(BaseModel):
    name: str
    home: Address = Field(description="Home address")
    others: list[Address] = []
    work: Address | None = None
    friends: list["Person"] = []


def test_a_pydantic_schema_has_no_references_left():
    schema = inline_references(Person.model_json_schema())
    assert "$defs" not in schema
    assert "Person" not in str(schema.get("$ref"))


def test_what_stands_beside_a_reference_wins():
    class Order(BaseModel):
        home: Address = Field(description="Home address")
        others: list[Address] = []
        work: Address | None = None

    properties = inline_references(Order.model_json_schema())["properties"]
    assert properties["home"]["description"] == "Home address"
    assert properties["home"]["properties"]["street"] == {"title": "Street", "type": "string"}
    assert properties["others"]["items"]["description"] == "Where somebody lives."
    assert properties["work"]["anyOf"][0]["required"] == ["street"]


def test_a_schema_that_contains_itself_ends_in_a_plain_object():
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Node"}},
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            }
        },
    }
    tree = inline_references(schema)["properties"]["tree"]
    assert tree["properties"]["children"]["items"] == {"type": "object"}


def test_a_reference_to_the_whole_schema_ends_too():
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    following = inline_references(schema)["properties"]["next"]
    assert following["properties"]["next"] == {"type": "object"}


def test_references_that_fan_out_stay_small():
    levels = 40
    definitions = {
        f"L{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/L{n + 1}"} for side in "ab"},
        }
        for n in range(levels)
    }
    definitions[f"L{levels}"] = {"type": "string"}
    inlined = inline_references({"$ref": "#/$defs/L0", "$defs": definitions})
    assert len(str(inlined)) < 10_000_000


@pytest.mark.parametrize("reference", ["https://example.org/a.json", "#/nowhere", "#/$defs/1/x"])
def test_a_reference_that_leads_nowhere_is_left(reference):
    schema = {"properties": {"a": {"$ref": reference}}, "$defs": {"1": {}}}
    assert inline_references(schema)["properties"]["a"] == {"$ref": reference}


def test_properties_may_be_named_like_keywords():
    schema = {
        "type": "object",
        "properties": {
            "$ref": {"type": "string"},
            "definitions": {"type": "string"},
            "items": {"$ref": "#/definitions/a~1b%20c"},
        },
        "definitions": {"a/b c": {"type": "integer"}},
    }
    assert inline_references(schema)["properties"] == {
        "$ref": {"type": "string"},
        "definitions": {"type": "string"},
        "items": {"type": "integer"},
    }


def test_data_in_a_schema_is_not_taken_for_schemas():
    schema = {"enum": [{"$ref": "#/x"}], "default": {"$ref": "#/x"}, "const": {"$ref": "#/x"}}
    assert inline_references(schema) == schema


def test_frozen_schemas_work_and_nothing_is_changed():
    schema = MappingProxyType({"properties": MappingProxyType({"a": {"type": "string"}})})
    assert inline_references(schema) == {"properties": {"a": {"type": "string"}}}


keys = st.sampled_from(["$ref", "properties", "items", "anyOf", "$defs", "type", "not", "a"])
leaves = st.sampled_from(["#", "#/$defs/a", "#/properties/a", "#/items", "x", "", "#/anyOf/0"])
trees = st.recursive(
    leaves | st.none() | st.booleans(),
    lambda inner: st.dictionaries(keys, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=15,
)


@given(st.dictionaries(keys, trees, max_size=5))
def test_any_schema_at_all_is_survived(schema):
    before = repr(schema)
    assert isinstance(inline_references(schema), dict)
    assert repr(schema) == before


def fan(levels, leaf):
    """Return a schema that doubles with each level when its references are written out."""
    definitions = {f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/L0", "$defs": {**definitions, f"L{levels}": leaf}}


LARGE = {"type": "string", "description": "x" * 10_000}
BOMBS = {
    "objects": fan(40, LARGE),
    "booleans": fan(40, True),
    "wide": {
        "properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(2000)},
        "$defs": {"a": {"enum": [f"value {n}" for n in range(20_000)]}},
    },
    "recursive": {
        "$ref": "#/$defs/a",
        "$defs": {
            name: {"anyOf": [{"$ref": f"#/$defs/{b}"} for b in "abcdefgh"]} for name in "abcdefgh"
        },
    },
    "whole": {"properties": {f"p{n}": {"$ref": "#"} for n in range(3000)}},
}


@pytest.mark.parametrize("schema", BOMBS.values(), ids=BOMBS)
def test_what_is_written_out_stays_in_proportion(schema):
    before = len(msgspec.json.encode(schema))
    begun = time.process_time()
    inlined = inline_references(schema)
    assert time.process_time() - begun < 0.5
    assert len(msgspec.json.encode(inlined)) <= 2 * before + MOST_OF_A_SCHEMA
    validator_for(inlined)  # references that are left have their definitions


def test_a_hundred_tools_of_a_request_stay_in_proportion_together():
    schemas = [{**fan(40, LARGE), "title": str(number)} for number in range(100)]
    before = len(msgspec.json.encode(schemas))
    assert len(msgspec.json.encode(inline_all(schemas))) <= 2 * before + MOST_WRITTEN_OUT


def test_a_bomb_leaves_room_for_the_references_of_other_tools():
    schema = {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}
    _, inlined = inline_all([fan(40, LARGE), schema])
    assert inlined == {"properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize("length", [10, 250, 2000])
def test_a_chain_of_references_is_as_long_as_it_likes(length):
    definitions = {f"L{n}": {"$ref": f"#/$defs/L{n + 1}"} for n in range(length)}
    schema = {"$ref": "#/$defs/L0", "$defs": {**definitions, f"L{length}": {"type": "string"}}}
    inlined = inline_references(schema)
    assert inlined == {"type": "string"} or inlined["$defs"] == schema["$defs"]


@pytest.mark.parametrize("levels", [60, 120, 400])
def test_a_deep_schema_is_shortened_rather_than_refused(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"x": schema}, "type": "object"}
    inlined = inline_references(schema)
    assert inlined == (schema if levels < 127 else {"type": "object"})
    assert bounded(schema) == inlined


def test_numbers_of_any_size_are_kept():
    schema = {"properties": {"n": {"maximum": 2**80}}}
    assert inline_references(schema) == schema


@pytest.mark.parametrize(
    "target", [{"maximum": 10**30}, {"description": "half a character: \ud800"}]
)
def test_references_to_schemas_that_are_hard_to_encode_are_written_out(target):
    schema = {"$defs": {"a": target}, "properties": {"x": {"$ref": "#/$defs/a"}}}
    assert inline_references(schema) == {"properties": {"x": target}}


def test_a_reference_with_thousands_of_digits_is_left():
    reference = {"$ref": "#/anyOf/" + "1" * 5_000}
    schema = {"anyOf": [{}], "properties": {"x": reference}}
    assert inline_references(schema) == schema


def test_a_deep_schema_with_a_large_integer_becomes_a_plain_object():
    deep = {"maximum": 10**30}
    for _ in range(3_000):
        deep = {"items": deep}
    assert bounded({"maximum": 10**30, **deep}) == {"type": "object"}


def test_a_reference_that_is_left_keeps_its_definition_beside_a_large_integer():
    large = {"maximum": 10**30, "description": "x" * 100_000}
    schema = {"$defs": {"a": large}, "properties": {name: {"$ref": "#/$defs/a"} for name in "abc"}}
    inlined = inline_references(schema)
    assert inlined["properties"]["c"] == {"$ref": "#/$defs/a"}
    assert inlined["$defs"] == schema["$defs"]
