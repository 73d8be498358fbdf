"""Explains responses of HTTP without a reply to the request. Pure."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses

_MAX_BODY_BYTES = 4096
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_LACKS_SCOPE = re.compile(r'\berror="?insufficient_scope\b')
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
    if location := headers.get("location", "").partition("?")[0]:
        sentences.append(f"Redirects are not followed: set its 'url' to {location} if that is it.")
    if wait := headers.get("retry-after"):
        pause = f"in {wait} seconds" if wait.isdecimal() else f"from {wait} on"
        sentences.append(f"Try again {pause}.")
    if words:
        sentences.append(f"It said: {words}")
    return " ".join(sentences)


def lacks_scope(status: int, challenge: str) -> bool:
    """Return whether a request was refused because its token may do too little (RFC 6750)."""
    return status == HTTPStatus.FORBIDDEN and bool(_LACKS_SCOPE.search(challenge))


def scopes_of(challenge: str) -> list[str]:
    """Return the scopes that a refusal asks for."""
    parameters: dict[str, str] = dict(_PARAMETER.findall(challenge))
    return parameters.get("scope", "").split()


def login_sentence(name: str, status: int, challenge: str) -> str:
    """Return who has to log in to a server, and how.

    Args:
        name: The server.
        status: The status of its refusal.
        challenge: The ``WWW-Authenticate`` of it.
    """
    command = f"mochi-server mcp login {name}"
    if status == HTTPStatus.FORBIDDEN:
        scope = " ".join(scopes_of(challenge))
        more = f" ({scope})" if scope else ""
        return f"It needs a login with more rights{more}: {command}."
    return f"It needs a login: {command}."


def words_of_body(body: bytes) -> str:
    """Return the text at the beginning of a body, without markup."""
    return " ".join(_MARKUP.sub(" ", body[:_MAX_BODY_BYTES].decode(errors="replace")).split())
