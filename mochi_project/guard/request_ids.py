"""Assigns request ids, which connect an answer, its log lines and a proxy's log."""

import re
import secrets

_is_sane = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}").fullmatch


def request_id(given: bytes | None) -> bytes:
    """Return the id of a request: the one that its client, or a proxy, gave it, or else a new one.

    What is too long, or has characters that a log or a header had better not repeat, is replaced.
    """
    if given is not None and _is_sane(given):
        return given
    return f"req_{secrets.token_hex(16)}".encode()
