"""Asks on the terminal what the server of a running tool wants to know."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from chat.stream.events import ToolConfirmationRequired
from sessions_app.errors import ValidationFailed
from terminal_app.calls import shown_text
from terminal_app.console import Console
from tools_app.elicitation import fill

_YES = frozenset({"y", "yes"})
_HINTS = {"boolean": "y or n", "array": "separated by commas"}


async def answer_of(question: ToolConfirmationRequired, console: Console) -> Any:
    """Return the values of a form, or True for an address; None declines."""
    server, message = shown_text(str(question.server)), shown_text(str(question.message))
    console.info(f"[The server {server} asks, for {shown_text(question.tool_name)}:] {message}")
    if question.secret_names is not UNSET:
        names = ", ".join(map(shown_text, question.secret_names))
        console.info(f"[This looks like a secret, which servers must not ask for here: {names}]")
    if not isinstance(question.schema, Mapping):
        console.info(shown_text(str(question.url)))
        return await _agrees(console, "Continue, once you have opened this address?") or None
    while await _agrees(console, "Answer?"):
        content = {}
        for name, schema in question.schema["properties"].items():
            value = await _value(console, name, schema)
            if value is not None:
                content[name] = value
        try:
            fill(content, question.schema)
        except ValidationFailed as misfit:
            console.info(f"[{misfit.message}]")
        else:
            return content
    return None


async def _agrees(console: Console, question: str) -> bool:
    line = await console.ask(f"{question} [y/N] ")
    return (line or "").strip().lower() in _YES


async def _value(console: Console, name: str, schema: Mapping[str, Any]) -> Any:
    """Return what is typed for a value; None for nothing, which its default is for."""
    kind = schema["type"]
    source = schema.get("items", schema)
    options = source.get("oneOf") or source.get("anyOf") or ()
    choices = source.get("enum") or [option["const"] for option in options]
    parts = [" | ".join(choices), _HINTS.get(kind, "")]
    hint = "; ".join(shown_text(part) for part in parts if part)
    default = json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else ""
    label = shown_text(schema.get("title") or name) + (f" ({hint})" if hint else "")
    line = await console.ask(f"{label}{f' [{shown_text(default)}]' if default else ''}: ")
    typed = (line or "").strip()
    if not typed:
        return None
    if kind == "array":
        return [part.strip() for part in typed.split(",")]
    if kind == "boolean":
        return typed.lower() in _YES
    if kind == "string":
        return typed
    try:
        return json.loads(typed)
    except ValueError:
        return typed  # which is refused by name
