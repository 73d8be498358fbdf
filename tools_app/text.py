"""Converts and shortens texts of tools for models and people. Pure."""

from sessions_app.surrogates import join_surrogates

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


def _json(value: object) -> str:
    from pydantic_core import PydanticSerializationError, to_json  # noqa: PLC0415 - only in hosts

    try:
        return to_json(value, serialize_unknown=True, inf_nan_mode="strings").decode("utf-8")
    # Invalid UTF-8, a lone surrogate, a list that contains itself.
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return str(value)
