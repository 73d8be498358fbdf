"""Explains the statuses of HTTP with which an MCP server refuses a request. Pure."""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses
from typing import Any

_MAX_BODY_BYTES = 16_384
_MAX_MARKUP_CHARS = 4096
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_MARKUP = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_TEXTS = ("message", "error_description", "detail", "title", "error", "errors")


def refusal(status: int, headers: Mapping[str, str], words: str) -> str:
    """Return what a response means: its status, what its headers ask for, and its first words.

    Args:
        status: 400 or higher.
        headers: The response's; names in any case.
        words: What its body says.
    """
    challenge = dict(_PARAMETER.findall(headers.get("www-authenticate", "")))
    reason = challenge.get("error_description") or challenge.get("error") or ""
    answer = f"It answered {status} {responses.get(status, '')}".strip()
    sentences = [f"{answer}: {reason.rstrip('.')}." if reason else f"{answer}."]
    if status == HTTPStatus.UNAUTHORIZED:
        sentences.append("It wants a valid key: set 'headers' of its entry in mcp.json.")
    if scope := challenge.get("scope"):
        sentences.append(f"The key needs the scope {scope!r}.")
    if address := challenge.get("resource_metadata"):
        sentences.append(f"How to sign in is described at {address} .")
    if wait := headers.get("retry-after"):
        pause = f"in {wait} seconds" if wait.isdecimal() else f"from {wait} on"
        sentences.append(f"It can be asked again {pause}.")
    if words:
        sentences.append(f"It said: {words}")
    return " ".join(sentences)


def words_of_body(body: bytes) -> str:
    """Return the text at the beginning of a body in JSON, HTML or plain text."""
    text = body[:_MAX_BODY_BYTES].decode(errors="replace").strip()
    try:
        said = _text_in(json.loads(text))
    except (ValueError, RecursionError):
        said = ""
    return " ".join((said or _MARKUP.sub(" ", text[:_MAX_MARKUP_CHARS])).split())


def _text_in(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _text_in(value[0]) if value else ""
    if not isinstance(value, dict):
        return ""
    nested = value["error"] if isinstance(value.get("error"), dict) else value
    return next((words for key in _TEXTS if (words := _text_in(nested.get(key)))), "")
