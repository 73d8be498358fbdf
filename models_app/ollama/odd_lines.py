"""Reads lines of Ollama's emulators, and of Ollama itself, that are not in its form. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from models_app.odd_values import call_of, number_of, objects_of, text_of
from sessions_app.finite_numbers import AS_TEXT

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COUNTS = ("prompt_eval_count", "eval_count")


def mend_line(line: bytes) -> dict[str, Any]:
    """Return a line of an answer in Ollama's form: what can't be understood is left out.

    Raises:
        ValueError: It is not a JSON object.
        RecursionError: It is nested too deeply.
    """
    text = line.strip().removeprefix(_BYTE_ORDER_MARK).removeprefix(b"data:")
    value = json.loads(text, **AS_TEXT)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - of bytes
    mended: dict[str, Any] = {"done": value.get("done") in (True, 1, "true")}
    message = value.get("message")
    if isinstance(message, str) and value.keys() & {"done", "model"}:
        message = {"content": message}
    if isinstance(message, dict):
        mended["message"] = _message(message)
    elif "error" not in value and (words := value.get("message") or value.get("detail")):
        mended["error"] = words
    if value.get("error") is not None:
        mended["error"] = value["error"]
    if reason := text_of(value.get("done_reason")):
        mended["done_reason"] = reason
    for name in _COUNTS:
        if (number := number_of(value.get(name))) is not None:
            mended[name] = int(number)
    return mended


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = map(call_of, objects_of(message.get("tool_calls")))
    return {
        "content": text_of(message.get("content")),
        "thinking": text_of(message.get("thinking") or message.get("reasoning")),
        "tool_calls": [
            {"id": call_id, "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ],
    }
