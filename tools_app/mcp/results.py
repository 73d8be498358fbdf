"""Converts results of MCP tools to text and files for a model, block by block. Pure.

Whatever the server sent, its tool has run: what can't be understood is shown as JSON, because a
model that reads of an invalid result calls the tool again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessions_app.attachments.base64_text import InvalidBase64, begin_of_base64, decode_base64
from sessions_app.surrogates import join_surrogates
from tools_app.errors import EXECUTION_FAILED
from tools_app.file_names import file_name, mention, name_in
from tools_app.limits import MAX_OUTPUT_BYTES
from tools_app.mcp.limits import MAX_BLOCKS, MAX_LINK_BYTES, MAX_MESSAGE_BYTES
from tools_app.mcp.remote import mapping
from tools_app.output_limit import cut, whole_of
from tools_app.toolset import ToolFile, ToolResult

_MAX_BLOCK_BYTES = 16_384
_NO_OUTPUT = "The tool ran and returned nothing."
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_FRAME = frozenset({"content", "isError", "is_error", "structuredContent", "resultType", "_meta"})


def result_of(result: Mapping[str, Any], tool_name: str, notes: Sequence[str] = ()) -> ToolResult:
    """Return the result: text blocks unchanged, files by their names, other blocks described.

    Structured content is used only without text; servers with both send the same twice.

    Args:
        result: What the server sent.
        tool_name: The tool, which names the files that the server gives no name.
        notes: Sentences of ours that follow the text.
    """
    files: list[ToolFile] = []
    content = result.get("content")
    blocks = content if isinstance(content, list) else [content] if content is not None else []
    parts = [_part(block, tool_name, files) for block in blocks[:MAX_BLOCKS]]
    if len(blocks) > MAX_BLOCKS:
        parts.append(f"[{len(blocks) - MAX_BLOCKS:,} further blocks are not shown]")
    if not any(_text_in(block) is not None for block in blocks):
        structured = result.get("structuredContent")
        rest = {key: value for key, value in result.items() if key not in _FRAME}
        if structured is not None:
            parts.append(json_text(structured, limit=MAX_MESSAGE_BYTES))
        elif rest and not parts:
            parts.append(json_text(rest, limit=MAX_MESSAGE_BYTES))
    is_error = result.get("isError", result.get("is_error"))
    text = "\n".join([*(parts or [_NO_OUTPUT]), *notes])
    files += whole_of(text)
    if is_error is True or is_error == "true":
        words = cut(text) or "The tool failed."
        return ToolResult(
            success=False, error_message=words, error_code=EXECUTION_FAILED, files=files
        )
    return ToolResult(
        success=True,
        result=cut(text),
        files=files,
        links=bounded_links(
            str(_word(block, "uri"))
            for block in blocks[:MAX_BLOCKS]
            if mapping(block).get("type") == "resource_link"
        ),
    )


def bounded_links(uris: Iterable[str]) -> tuple[str, ...]:
    """Return the first addresses of resources, as many as a session keeps of a result."""
    links: list[str] = []
    size = 0
    for uri in uris:
        size += len(uri.encode(errors="replace"))
        if size > MAX_LINK_BYTES:
            break
        links += [join_surrogates(uri)] if uri else []
    return tuple(dict.fromkeys(links))


def json_text(value: object, *, limit: int = MAX_OUTPUT_BYTES) -> str:
    """Return a JSON value as text without spaces; what is far beyond the limit is not encoded."""
    text, size = [], 0
    try:
        for piece in _ENCODER.iterencode(value):
            text.append(piece)
            size += len(piece)
            if size > limit:
                break
    except RecursionError:
        text.append("[it is nested too deeply]")
    return cut(join_surrogates("".join(text)), limit=limit)


def _text_in(block: object) -> str | None:
    """Return the text of a block of text; None for any other block."""
    text = block if isinstance(block, str) else mapping(block).get("text")
    is_text = isinstance(block, str) or mapping(block).get("type", "text") == "text"
    return text if is_text and isinstance(text, str) else None


def _part(block: object, tool_name: str, files: list[ToolFile]) -> str:
    text = _text_in(block)
    if text is not None:
        return text
    match block:
        case {"type": "image", "data": str(data)}:
            return _taken(data, _word(block, "mimeType") or "image", "", tool_name, files)
        case {"type": "audio", "data": str(data)}:
            size = len(data.rstrip("=\r\n")) * 3 // 4
            return f"[{_word(block, 'mimeType') or 'audio'}, {size} bytes]"
        case {"type": "resource_link", "uri": str(uri)}:
            words = [_word(block, "name"), uri, _word(block, "mimeType")]
            return f"[{', '.join(['resource', *filter(None, words)])}]"
        case {"type": "resource", "resource": {"text": str()} | {"blob": str()} as resource}:
            return _resource(resource, tool_name, files)
    return json_text(block, limit=_MAX_BLOCK_BYTES)


def _resource(resource: Mapping[str, Any], tool_name: str, files: list[ToolFile]) -> str:
    uri = _word(resource, "uri")
    if "blob" not in resource:
        return f"[resource, {uri}]\n{_word(resource, 'text')}"
    kind = _word(resource, "mimeType") or "application/octet-stream"
    kind = ", ".join(filter(None, [uri, kind]))
    return _taken(_word(resource, "blob"), kind, name_in(uri), tool_name, files)


def _word(block: object, key: str) -> str:
    value = mapping(block).get(key)
    return value if isinstance(value, str) else ""


def _taken(base64: str, kind: str, name: str, tool_name: str, files: list[ToolFile]) -> str:
    """Add the file and return its mention; one that can't be decoded is described."""
    try:
        data = b"".join(decode_base64(base64, begin=begin_of_base64(base64)))
    except InvalidBase64:
        return f"[{kind}, not valid Base64]"
    file = ToolFile(name=name or file_name(tool_name, len(files) + 1, data), data=data)
    files.append(file)
    return mention(file.name, len(data))
