"""Assigns request ids, which correlate a response, its log lines and a proxy's log."""

import re
import secrets

_is_sane = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}").fullmatch


def request_id(header: bytes | None) -> bytes:
    """Return the id of a request given by its client or a proxy, or else a new one.

    An id that is too long, or has characters unsafe for logs or headers, is replaced.
    """
    if header is not None and _is_sane(header):
        return header
    return f"req_{secrets.token_hex(16)}".encode()
