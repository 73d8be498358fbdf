"""Converts, shortens and cuts texts of tools for models and people. Pure."""

from sessions_app.surrogates import join_surrogates

MAX_OUTPUT_BYTES = 64 * 1024
"""A tool's output is cut to this size (as UTF-8)."""

_BYTES = (bytes, bytearray, memoryview)
_MORE = "..."


def text_of(value: object) -> str:
    """Return a function's result as text: a string unchanged, anything else as JSON.

    What can't be JSON is converted with ``str``. Raises what the value's own methods raise.
    """
    if isinstance(value, _BYTES):
        return bytes(value).decode("utf-8", errors="replace")
    return join_surrogates(value if isinstance(value, str) else _json(value))


def words_of(error: BaseException) -> str:
    """Return an exception as ``Type: message``, or its type alone."""
    kind = type(error).__name__
    try:
        words = str(error)
    except Exception as broken:  # noqa: BLE001 - an exception class of the user
        return f"{kind} (whose text can't be shown: {type(broken).__name__})"
    return f"{kind}: {words}" if words else kind


def shortened(text: str, limit: int) -> str:
    """Return the text, or its beginning and ``...``; at most ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - len(_MORE)] + _MORE


def cut(text: str, *, limit: int = MAX_OUTPUT_BYTES) -> str:
    """Return the text, or its beginning and a marker with the number of missing bytes.

    Args:
        text: The output of a tool.
        limit: How many bytes of UTF-8 are kept, before the marker.
    """
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", errors="surrogatepass")
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", errors="ignore")
    return f"{kept}\n\n{_marker(len(data) - limit, len(data))}"


def cut_middle(text: str, *, limit: int = MAX_OUTPUT_BYTES) -> str:
    """Return the text, or its beginning (a quarter), a marker and its end, which matters more.

    Args:
        text: The output of a long run.
        limit: How many bytes of UTF-8 are kept, besides the marker.
    """
    data = text.encode("utf-8", errors="surrogatepass")
    if len(data) <= limit:
        return text
    head = data[: limit // 4].decode("utf-8", errors="ignore")
    tail = data[len(data) - (limit - limit // 4) :].decode("utf-8", errors="ignore")
    return f"{head}\n\n{_marker(len(data) - limit, len(data))}\n\n{tail}"


def _marker(missing: int, size: int) -> str:
    return f"[cut: {missing:,} of {size:,} bytes are not shown]"


def _json(value: object) -> str:
    from pydantic_core import PydanticSerializationError, to_json  # noqa: PLC0415 - only in hosts

    try:
        return to_json(value, serialize_unknown=True).decode("utf-8")
    # Invalid UTF-8, a lone surrogate, a list that contains itself.
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return str(value)
