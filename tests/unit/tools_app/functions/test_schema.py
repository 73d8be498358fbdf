from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from tools_app.functions.schema import ArgumentsInvalid, SchemaError, bind, describe, schema_of

if TYPE_CHECKING:
    from fractions import Fraction


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Options(TypedDict, total=False):
    depth: int


class Shape(BaseModel):
    """A shape."""

    title: str
    corners: list[Point] = []
    inner: Shape | None = None

    @field_validator("title")
    @classmethod
    def has_a_title(cls, title: str) -> str:
        if not title:
            raise ValueError("Give it a title.")
        return title


def plain(a: int, b: float = 2.5, *, c: str = "x") -> str:
    """Do it.

    For long.

    Args:
        a: The first
            number.
        b (float, optional): The second.
    """


def rich(
    shape: Shape,
    point: Point,
    colour: Colour,
    options: Options,
    mode: Literal["fast", "slow"],
    when: date,
    where: Path,
    either: int | str,
    anything: Any,
    many: Sequence[dict[str, Point]],
    bounded: Annotated[int, Field(ge=1, le=9, description="One digit.")] = 1,
    maybe: Optional[Point] = None,  # noqa: UP045
    united: Union[bool, None] = None,  # noqa: UP007
    infinite: float = math.inf,
    unknown: str = threading.Lock(),  # type: ignore[assignment]
    blue: Colour = Colour.BLUE,
) -> str:
    """Do more."""


def described(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(describe(function, name="f")[0].parameters)


def fault(function: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ArgumentsInvalid) as refused:
        bind(function, arguments)
    return str(refused.value)


RICH = {
    "shape": {"title": "house", "inner": {"title": "door"}},
    "point": {"x": 1},
    "colour": "red",
    "options": {"depth": 2},
    "mode": "fast",
    "when": "2026-01-15",
    "where": "/tmp",
    "either": "7",
    "anything": [1, {}],
    "many": [{"a": {"x": 1, "tags": ["t"]}}],
}


def test_a_function_is_described_with_what_its_docstring_says() -> None:
    spec, parameters = describe(plain, name="plain")

    assert (spec.name, spec.description) == ("plain", "Do it.\n\nFor long.")
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first number."},
            "b": {"type": "number", "default": 2.5, "description": "The second."},
            "c": {"type": "string", "default": "x"},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert parameters == {
        "a": {"type": "int", "description": "The first number."},
        "b": {"type": "float", "description": "The second."},
        "c": {"type": "str", "description": ""},
    }


def test_rich_types_are_in_the_schema_whole() -> None:
    schema = described(rich)

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(RICH, schema)
    assert schema["$defs"].keys() == {"Shape", "Point", "Colour", "Options"}
    assert schema["$defs"]["Shape"]["properties"].keys() == {"title", "corners", "inner"}
    assert schema["properties"]["mode"] == {"type": "string", "enum": ["fast", "slow"]}
    assert schema["properties"]["bounded"]["maximum"] == 9
    assert schema["properties"]["bounded"]["description"] == "One digit."
    assert schema["required"] == list(RICH)
    json.dumps(schema, allow_nan=False)


def test_defaults_that_json_has_not_are_not_shown() -> None:
    properties = described(rich)["properties"]

    assert "default" not in properties["infinite"]
    assert "default" not in properties["unknown"]
    assert properties["blue"]["default"] == "blue"
    assert properties["maybe"]["default"] is None


def test_no_titles_are_made_of_names_and_none_are_lost() -> None:
    schema = described(rich)

    assert "title" not in schema["$defs"]["Point"]
    assert "title" in schema["$defs"]["Shape"]["properties"]


def test_types_are_named_as_python_writes_them() -> None:
    _, parameters = describe(rich, name="rich")

    assert {name: parameter["type"] for name, parameter in parameters.items()} == {
        "shape": "Shape",
        "point": "Point",
        "colour": "Colour",
        "options": "Options",
        "mode": "Literal['fast', 'slow']",
        "when": "date",
        "where": "Path",
        "either": "int | str",
        "anything": "Any",
        "many": "Sequence[dict[str, Point]]",
        "bounded": "int",
        "maybe": "Point | None",
        "united": "bool | None",
        "infinite": "float",
        "unknown": "str",
        "blue": "Colour",
    }


def test_arguments_become_what_the_hints_name() -> None:
    bound = bind(rich, RICH)

    assert isinstance(bound["shape"], Shape)
    assert isinstance(bound["shape"].inner, Shape)
    assert bound["point"] == Point(1.0)
    assert bound["colour"] is Colour.RED
    assert bound["when"] == date(2026, 1, 15)
    assert bound["where"] == Path("/tmp")
    assert bound["either"] == "7"
    assert bound["many"] == [{"a": Point(1.0, tags=["t"])}]
    assert bound.keys() == RICH.keys()


def test_what_models_write_loosely_is_taken() -> None:
    assert bind(plain, {"a": "5", "b": 3, "c": 4}) == {"a": 5, "b": 3.0, "c": "4"}


def test_each_fault_is_told_so_that_a_model_can_mend_it() -> None:
    assert fault(plain, b="much", d=1) == (
        "The argument 'a' (int) is missing. "
        "There is no argument 'd'; the arguments are 'a', 'b', 'c'. "
        "The argument 'b' is wrong: input should be a valid number, unable to parse string as a "
        'number (it is "much").'
    )


def test_a_fault_inside_of_an_argument_names_the_place() -> None:
    many = [{"a": {"x": 1}}, {"b": {"x": "left"}}]
    told = fault(rich, **{**RICH, "shape": {"title": "", "corners": [{"y": 1}]}, "many": many})

    assert "'shape.title' is wrong: give it a title (it is \"\")." in told
    assert "'shape.corners[0]' is wrong: 'x' is missing." in told
    assert "'many[1].b.x' is wrong: input should be a valid number" in told


def test_a_fault_of_a_union_is_one_sentence() -> None:
    assert fault(rich, **{**RICH, "either": []}) == (
        "The argument 'either' is wrong: input should be a valid integer, or input should be a "
        "valid string (it is [])."
    )


def test_many_faults_and_long_values_are_cut() -> None:
    told = fault(plain, a="x" * 10_000, **{f"n{i}{'y' * 500}": i for i in range(100)})

    assert "There are 91 more faults." in told
    assert len(told) < 3000


def test_a_tool_without_parameters_says_that_it_takes_none() -> None:
    def nothing() -> str:
        """Do nothing."""

    assert described(nothing)["properties"] == {}
    assert fault(nothing, a=1) == "There is no argument 'a': the tool takes none."


def test_arguments_that_are_no_object_are_refused() -> None:
    with pytest.raises(ArgumentsInvalid, match="must be a JSON object"):
        bind(plain, [1])  # type: ignore[arg-type]


def test_parameters_may_have_any_name() -> None:
    def odd(model_config: int, _hidden: int, self: int, p0: int, schema: int, copy: int = 1) -> str:
        """Do it."""

    arguments = {"model_config": 1, "_hidden": 2, "self": 3, "p0": 4, "schema": 5}

    assert bind(odd, arguments) == arguments
    assert list(described(odd)["properties"]) == [*arguments, "copy"]


def test_a_default_of_pydantic_s_field_is_filled_in() -> None:
    def fielded(a: int = Field(3, description="Some."), b: int = Field(ge=1)) -> str:  # type: ignore[assignment]
        """Do it."""

    assert bind(fielded, {"b": 2}) == {"a": 3, "b": 2}
    assert described(fielded)["required"] == ["b"]
    assert described(fielded)["properties"]["a"]["description"] == "Some."


def test_a_type_that_json_can_t_express_is_named() -> None:
    def odd(a: int, lock: threading.Event) -> str:
        """Do it."""

    def calling(a: Callable[[int], str]) -> str:
        """Do it."""

    with pytest.raises(SchemaError, match="'lock' has the type Event, which JSON can't express"):
        schema_of(odd)
    with pytest.raises(SchemaError, match="can't be described as JSON"):
        schema_of(calling)


def test_a_type_that_is_not_imported_at_run_time_is_named() -> None:
    def fractional(a: Fraction) -> str:
        """Do it."""

    with pytest.raises(SchemaError, match="names 'Fraction'"):
        schema_of(fractional)


def test_a_return_type_that_is_not_known_at_run_time_does_not_matter() -> None:
    def fractional(a: int) -> Fraction:
        """Do it."""

    assert bind(fractional, {"a": 1}) == {"a": 1}


def test_a_schema_is_made_once() -> None:
    assert schema_of(plain) is schema_of(plain)


def test_methods_of_objects_that_can_t_be_hashed_are_described() -> None:
    class Box(list[int]):
        def put(self, a: int) -> str:
            """Put it in."""
            return ""

    assert bind(Box().put, {"a": "1"}) == {"a": 1}


JSON_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(st.characters(exclude_categories=["Cs"])),
    bool: st.booleans(),
    date: st.dates().map(str),
    Colour: st.sampled_from(["red", "blue"]),
    Literal["a", "b"]: st.sampled_from(["a", "b"]),
    Decimal: st.integers().map(str),
    Point: st.fixed_dictionaries(
        {"x": st.integers(-9, 9)},
        optional={"y": st.integers(-9, 9), "tags": st.lists(st.just("t"))},
    ),
    Options: st.fixed_dictionaries({}, optional={"depth": st.integers()}),
}


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner.flatmap(
        lambda known: st.sampled_from(
            [
                (list[known[0]], st.lists(known[1], max_size=3)),  # type: ignore[index,name-defined]
                (dict[str, known[0]], st.dictionaries(JSON_BY_TYPE[str], known[1], max_size=3)),  # type: ignore[index,name-defined]
                (known[0] | None, st.none() | known[1]),
            ]
        )
    )


typed_values = st.recursive(
    st.sampled_from([*JSON_BY_TYPE.items()]), _containers, max_leaves=4
).flatmap(lambda known: st.tuples(st.just(known[0]), known[1]))


@given(st.lists(typed_values, max_size=4), st.data())
def test_what_fits_the_schema_can_be_bound(
    values: list[tuple[Any, Any]], data: st.DataObject
) -> None:
    hints = {f"a{number}": hint for number, (hint, _) in enumerate(values)}
    names = ", ".join(f"{name}: hints[{name!r}]" for name in hints)
    scope: dict[str, Any] = {"hints": hints}
    exec(f"def f({names}) -> str: 'Do it.'", scope)
    arguments = {f"a{number}": value for number, (_, value) in enumerate(values)}

    schema = described(scope["f"])
    jsonschema.validate(arguments, schema)
    bound = bind(scope["f"], arguments)

    assert bound.keys() == arguments.keys()
    assert bind(scope["f"], bound) == bound
    if arguments:
        missing = data.draw(st.sampled_from(sorted(arguments)))
        rest = {name: value for name, value in arguments.items() if name != missing}
        assert f"The argument {missing!r}" in fault(scope["f"], **rest)
