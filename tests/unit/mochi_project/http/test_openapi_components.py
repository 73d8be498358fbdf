from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mochi_project.api import api
from mochi_project.http.openapi_components import shape_components


def shaped(name: str, component: dict[str, Any]) -> dict[str, Any]:
    shape_components({"components": {"schemas": {name: component}}})
    return component


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(api.get_openapi_schema())


def test_what_may_be_left_out_of_a_request_has_no_default_that_would_require_it() -> None:
    field = {"type": "boolean", "default": False, "description": "Whether it goes on."}
    component = shaped("ChatIn", {"properties": {"detached": field}})
    assert "required" not in component
    assert field == {
        "type": "boolean",
        "description": "Whether it goes on. Absent means `false`.",
    }


def test_a_constant_of_an_answer_is_always_there() -> None:
    component = shaped("SuspendedOut", {"properties": {"status": {"const": "x", "default": "x"}}})
    assert component["required"] == ["status"]
    assert component["properties"]["status"] == {"const": "x"}


def test_no_component_has_a_default(document: dict[str, Any]) -> None:
    for name, component in document["components"]["schemas"].items():
        optional = component.get("properties", {}).keys() - set(component.get("required", ()))
        assert not [f for f in optional if "default" in component["properties"][f]], name


def test_components_are_entitled_as_they_are_named(document: dict[str, Any]) -> None:
    for name, component in document["components"]["schemas"].items():
        assert name.isidentifier()
        assert component["title"] == name


def test_marks_of_messages_may_be_absent(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert {"cancelled", "interrupted"}.isdisjoint(schemas["MessageOut"]["required"])
    assert "detached" not in schemas["ChatIn"].get("required", [])
    assert "metadata" in schemas["OpenChatOut"]["required"]


def test_fields_that_need_each_other_stay_one_type() -> None:
    needed: list[dict[str, Any]] = [{"required": ["a"]}, {"required": ["b"]}]
    component = shaped("PairIn", {"properties": {"a": {}, "b": {}}, "anyOf": needed})
    assert "anyOf" not in component
    validator = Draft202012Validator(component)
    assert validator.is_valid({"b": 1})
    assert not validator.is_valid({})
