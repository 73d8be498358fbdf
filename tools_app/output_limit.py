"""Cuts the outputs of tools to a limit, and says how much is missing. Pure."""

from tools_app.limits import MAX_OUTPUT_BYTES


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
