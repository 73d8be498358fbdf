"""What a tool returns, made fit for a model to read. Pure."""

MAX_OUTPUT_BYTES = 64 * 1024
"""More than this of a tool's output is cut (as UTF-8)."""


def cut(text: str, *, limit: int = MAX_OUTPUT_BYTES) -> str:
    """Return the text, or its beginning and a marker that says how much is missing.

    Args:
        text: What a tool returned.
        limit: How many bytes of UTF-8 are kept, before the marker.
    """
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", errors="surrogatepass")
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", errors="ignore")
    missing = len(data) - limit
    return f"{kept}\n\n[cut: {missing:,} of {len(data):,} bytes are not shown]"
