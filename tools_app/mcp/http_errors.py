"""Explains responses of HTTP without a reply to the request. Pure."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses

_MAX_BODY_BYTES = 4096
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_MARKUP = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def refusal(status: int, headers: Mapping[str, str], words: str) -> str:
    """Return what a response means: its status, what its headers ask for, and its first words.

    Args:
        status: Its status.
        headers: The response's; names in any case.
        words: What its body says.
    """
    challenge = dict(_PARAMETER.findall(headers.get("www-authenticate", "")))
    reason = challenge.get("error_description") or challenge.get("error") or ""
    answer = f"It answered {status} {responses.get(status, '')}".strip()
    if status < HTTPStatus.BAD_REQUEST:
        kind = headers.get("content-type", "").partition(";")[0] or "no content type"
        reason, words = f"{kind}, but no answer to the request", words or "nothing"
    sentences = [f"{answer}: {reason.rstrip('.')}." if reason else f"{answer}."]
    if status == HTTPStatus.UNAUTHORIZED:
        sentences.append("It wants a valid key: set 'headers' of its entry in mcp.json.")
    if scope := challenge.get("scope"):
        sentences.append(f"The key needs the scope {scope!r}.")
    if address := challenge.get("resource_metadata"):
        sentences.append(f"How to sign in is described at {address} .")
    if wait := headers.get("retry-after"):
        pause = f"in {wait} seconds" if wait.isdecimal() else f"from {wait} on"
        sentences.append(f"Try again {pause}.")
    if words:
        sentences.append(f"It said: {words}")
    return " ".join(sentences)


def words_of_body(body: bytes) -> str:
    """Return the text at the beginning of a body, without markup."""
    return " ".join(_MARKUP.sub(" ", body[:_MAX_BODY_BYTES].decode(errors="replace")).split())
