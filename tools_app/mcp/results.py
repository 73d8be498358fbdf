"""Converts results of MCP tools to text and files for a model. Pure.

Importing this module imports the SDK's types.
"""

from collections.abc import Iterator, Sequence

import mcp_types as types
import msgspec

from sessions_app.attachments.base64_text import InvalidBase64, decode_base64
from tools_app.file_names import file_name, mention, name_in
from tools_app.mcp.remote import RemoteResult
from tools_app.output_limit import cut
from tools_app.toolset import ToolFile


def has_bytes(result: types.CallToolResult) -> bool:
    """Return whether a result has binary content to decode."""
    return any(
        isinstance(block, types.ImageContent | types.EmbeddedResource) for block in result.content
    )


def result_of(result: types.CallToolResult, tool_name: str) -> RemoteResult:
    """Return the result: text blocks unchanged, files by their names, other blocks described.

    Structured content is used only without text; servers with both send the same twice.

    Args:
        result: What the server sent.
        tool_name: The tool, which names the files that the server gives no name.
    """
    files: list[ToolFile] = []
    parts = list(_parts(result.content, tool_name, files))
    if result.structured_content is not None and not _has_text(result.content):
        parts.append(msgspec.json.encode(result.structured_content).decode())
    return RemoteResult(text=cut("\n".join(parts)), is_error=result.is_error, files=files)


def _has_text(content: Sequence[types.ContentBlock]) -> bool:
    return any(isinstance(block, types.TextContent) for block in content)


def _parts(
    content: Sequence[types.ContentBlock], tool_name: str, files: list[ToolFile]
) -> Iterator[str]:
    for block in content:
        match block:
            case types.TextContent(text=text):
                yield text
            case types.ImageContent(mime_type=kind, data=data):
                yield _taken(data, kind, "", tool_name, files)
            case types.AudioContent(mime_type=kind, data=data):
                yield _described(kind, data)
            case types.ResourceLink(uri=uri, name=name, mime_type=kind):
                yield f"[{', '.join(filter(None, ('resource', name, uri, kind)))}]"
            case types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text=text)):
                yield f"[resource, {uri}]\n{text}"
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                kind = resource.mime_type or "application/octet-stream"
                name = name_in(resource.uri)
                yield _taken(resource.blob, f"{resource.uri}, {kind}", name, tool_name, files)


def _taken(base64: str, kind: str, name: str, tool_name: str, files: list[ToolFile]) -> str:
    """Add the file and return its mention; one that can't be decoded is described."""
    try:
        data = b"".join(decode_base64(base64))
    except InvalidBase64:
        return f"[{kind}, not valid Base64]"
    file = ToolFile(name=name or file_name(tool_name, len(files) + 1, data), data=data)
    files.append(file)
    return mention(file.name, len(data))


def _described(kind: str, base64: str) -> str:
    size = len(base64.rstrip("=\r\n")) * 3 // 4
    return f"[{kind}, {size} bytes]"
