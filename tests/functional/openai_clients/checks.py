"""Runs checks one after the other and prints a line of JSON for each; the tests read them."""

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

URL = sys.argv[1]
MODEL = "qwen3:14b"

Entry = str | Sequence[str] | dict[str, Any]


def script(*entries: Entry, **keys: Any) -> str:
    """Return a user message that scripts its answer: texts, or whole entries of ``messages``."""
    messages = [
        entry if isinstance(entry, dict) else {"text_message": {"text": entry}} for entry in entries
    ]
    return f"<|instruction_start|>{json.dumps({'messages': messages, **keys})}<|instruction_end|>"


def rounds(*entries: Entry) -> str:
    """The same for a model that is asked several times: each request gets the next entry."""
    return script(*entries, per_request=True)


def calls(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return an entry in which the model calls tools."""
    return {"tool_call": [{"name": name, "args": args} for name, args in wanted]}


def thinking(reasoning: Any, text: Any) -> dict[str, Any]:
    """Return an entry in which the model reasons before it answers."""
    return {"text_message": {"text": text, "reasoning": reasoning}}


def run(checks: Sequence[Callable[[], None]]) -> None:
    """Run them all; the first line of a check's docstring is its name."""
    for check in checks:
        error = None
        try:
            check()
        except BaseException:
            error = traceback.format_exc()
        name = (check.__doc__ or "").strip().rstrip(".")
        print(json.dumps({"name": name, "error": error}), flush=True)
