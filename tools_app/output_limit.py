"""Cuts the outputs of tools to a limit, and says how much is missing. Pure."""

from sessions_app.attachments.references import WHOLE_RESULT
from tools_app.limits import KIBIBYTE, MAX_OUTPUT_BYTES
from tools_app.toolset import ToolFile

_HEAD_BYTES = 8 * KIBIBYTE
_TAIL_BYTES = 2 * KIBIBYTE


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


def whole_of(text: str) -> list[ToolFile]:
    """Return a text that ``cut`` would cut as a file; none if it fits."""
    if len(text) * 4 <= MAX_OUTPUT_BYTES:
        return []
    data = text.encode("utf-8", errors="replace")
    return [ToolFile(name=WHOLE_RESULT, data=data)] if len(data) > MAX_OUTPUT_BYTES else []


def result_id(attachment_id: str) -> str:
    """Return the id by which models name a long result: short, as they write it themselves."""
    return attachment_id.removeprefix("sha256:")[:16]


def excerpt(data: bytes, attachment_id: str) -> str:
    """Return the beginning and the end of a text that is kept, and how its parts are read.

    Args:
        data: The text as UTF-8.
        attachment_id: The attachment that it is kept as.
    """
    name = result_id(attachment_id)
    head = data[:_HEAD_BYTES].decode("utf-8", errors="ignore")
    tail = data[-_TAIL_BYTES:].decode("utf-8", errors="ignore")
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return (
        f"{head}\n\n{_marker(len(data) - _HEAD_BYTES - _TAIL_BYTES, len(data))}\n\n{tail}\n\n"
        f"[{len(data):,} bytes in {lines:,} lines were kept. Read parts with read_result "
        f'{{"id": "{name}", "from_line": 1, "lines": 200}} or '
        f'{{"id": "{name}", "search": "regex"}}.]'
    )


def _marker(missing: int, size: int) -> str:
    return f"[cut: {missing:,} of {size:,} bytes are not shown]"
