"""Makes forms of the values that a server asks for, and reads what a browser posts. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

_INPUTS = {"email": "email", "date": "date", "date-time": "text", "uri": "url"}


def fields_of(schema: Mapping[str, Any]) -> SafeString:
    """Return a field for each value of a flat schema."""
    required = schema.get("required", ())
    rows = (
        (each.get("title") or name, each.get("description", ""), _field(name, each, required))
        for name, each in schema["properties"].items()
    )
    return format_html_join("", "<p><label>{} <small>{}</small><br>{}</label></p>", rows)


def content_of(posted: Mapping[str, Sequence[str]], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that were posted; empty fields are left out, as are unknown ones.

    What is no number stays text, which the schema refuses.
    """
    content: dict[str, Any] = {}
    for name, each in schema["properties"].items():
        values = posted.get(f"field.{name}", [])
        if each["type"] == "boolean":
            content[name] = bool(values)
        elif each["type"] == "array":
            content[name] = list(values)
        elif values and values[0]:
            content[name] = _number(values[0]) if each["type"] != "string" else values[0]
    return content


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _field(name: str, each: Mapping[str, Any], required: Sequence[str]) -> SafeString:
    key, default = f"field.{name}", each.get("default")
    is_required = SafeString(" required" if name in required else "")
    items = each.get("items", {})
    choices = each.get("oneOf") or items.get("anyOf") or each.get("enum") or items.get("enum")
    if each["type"] == "boolean":
        checked = SafeString(" checked" if default else "")
        return format_html('<input type="checkbox" name="{}"{}>', key, checked)
    if choices:
        several = SafeString(" multiple" if each["type"] == "array" else "")
        options = format_html_join("", '<option value="{}"{}>{}</option>', _options(each, choices))
        return format_html('<select name="{}"{}{}>{}</select>', key, several, is_required, options)
    kind = "text" if each["type"] == "string" else "number"
    kind = _INPUTS.get(each.get("format", ""), kind)
    step = SafeString(' step="any"' if each["type"] == "number" else "")
    value = "" if default is None else default
    return format_html(
        '<input type="{}" name="{}" value="{}"{}{}>', kind, key, value, step, is_required
    )


def _options(each: Mapping[str, Any], choices: Sequence[Any]) -> list[tuple[str, SafeString, str]]:
    chosen = each.get("default") or []
    chosen = chosen if isinstance(chosen, list) else [chosen]
    names = each.get("enumNames") or ()
    options = []
    for index, choice in enumerate(choices):
        value = choice["const"] if isinstance(choice, dict) else choice
        named = names[index] if index < len(names) else value
        title = (choice.get("title") or value) if isinstance(choice, dict) else named
        options.append((value, SafeString(" selected" if value in chosen else ""), title))
    return options
