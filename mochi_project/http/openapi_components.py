"""Adapts the components of the OpenAPI document so that generators derive the right types."""

import json
from typing import Any


def shape_components(schema: dict[str, Any]) -> None:
    """Set the titles of components to their names, and adapt their defaults, in place."""
    for name, component in schema["components"]["schemas"].items():
        component["title"] = name  # the class name used by some generators
        _settle_defaults(component, is_sent=name.endswith("Out"))
        _keep_one_type(component)


def _settle_defaults(component: dict[str, Any], *, is_sent: bool) -> None:
    """Move defaults to descriptions: generators treat a field with a default as always present.

    Args:
        component: The component.
        is_sent: Whether the server sends it; then constants are always present.
    """
    for name, field in component.get("properties", {}).items():
        if "default" not in field or name in component.get("required", ()):
            continue
        default = field.pop("default")
        if is_sent and "const" in field:
            component["required"] = [*component.get("required", ()), name]
        elif not is_sent and default not in (None, [], {}):
            said = f"Absent means `{json.dumps(default)}`."
            field["description"] = f"{field.get('description', '')} {said}".strip()


def _keep_one_type(component: dict[str, Any]) -> None:
    """Express dependent fields as a condition: for an ``anyOf``, generators make several types."""
    if "properties" not in component:
        return
    rules = {name: component.pop(name) for name in ("anyOf", "allOf") if name in component}
    if rules:
        component |= {"if": rules, "then": True, "else": False}
