"""Objects from JSON schemas: what pydantic writes as a schema, it accepts as a value."""

import datetime as dt
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from scripted_app.instances import smallest_instance


class Mood(Enum):
    CALM = "calm"
    WILD = "wild"


class Topic(BaseModel):
    name: str = Field(min_length=12, max_length=20)
    short: str = Field(max_length=3)
    mood: Mood
    kind: Literal["a", "b"]
    only: Literal["this"]


class Tree(BaseModel):
    label: str
    parent: "Tree | None" = None
    children: list["Tree"] = []


class Cat(BaseModel):
    type: Literal["cat"]
    lives: int


class Dog(BaseModel):
    type: Literal["dog"]


class Everything(BaseModel):
    summary: str
    topics: list[Topic]
    two: list[int] = Field(min_length=2)
    few: list[int] = Field(max_length=0)
    pair: tuple[int, str]
    maybe: str | None
    number: float = Field(gt=0, lt=1)
    percent: int = Field(ge=10, le=90, multiple_of=7)
    negative: int = Field(lt=0)
    price: Decimal
    flag: bool
    when: dt.datetime
    day: dt.date
    id: UUID
    table: dict[str, int]
    anything: Any
    pet: Annotated[Cat | Dog, Field(discriminator="type")]
    tree: Tree


def test_what_pydantic_writes_as_a_schema_it_accepts_as_a_value() -> None:
    value = smallest_instance(Everything.model_json_schema())
    read = Everything.model_validate(value)
    assert read.topics[0].mood is Mood.CALM
    assert read.tree.parent is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, "lorem"),
        ({"const": 7}, 7),
        ({"enum": ["x", "y"]}, "x"),
        ({"type": ["null", "integer"]}, 1),
        ({"type": "null"}, None),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, True),
        ({"required": ["a"]}, {"a": "lorem"}),
        ({"type": "object"}, {}),
        ({"items": {"type": "integer"}}, [1]),
        ({"type": "array", "prefixItems": [{"const": 1}], "items": False}, [1]),
        ({"allOf": [{"properties": {"a": {"const": 1}}}, {"required": ["b"]}]}, {"a": 1, "b": "lorem"}),  # noqa: E501
        ({"$ref": "#/definitions/x~1y", "definitions": {"x/y": {"type": "integer"}}}, 1),
    ],
)  # fmt: skip
def test_hand_written_schemas_are_read_too(schema: Any, value: Any) -> None:
    assert smallest_instance(schema) == value


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"$ref": "#"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.org/schema"},
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "items": False, "minItems": "many"},
        "no schema",
        {"type": "no type"},
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9},
    ],
)
def test_what_nothing_satisfies_is_an_error(schema: Any) -> None:
    with pytest.raises(ValueError):
        smallest_instance(schema)
