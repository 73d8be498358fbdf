"""Converts results of MCP tools to text for a model. Pure.

Importing this module imports the SDK's types.
"""

from collections.abc import Iterator, Sequence

import mcp_types as types
import msgspec

from tools_app.mcp.remote import RemoteResult
from tools_app.output_limit import cut


def result_of(result: types.CallToolResult) -> RemoteResult:
    """Return the result as text: text blocks unchanged, other blocks described.

    Structured content is used only without text; servers with both send the same twice.
    """
    parts = list(_parts(result.content))
    if result.structured_content is not None and not _has_text(result.content):
        parts.append(msgspec.json.encode(result.structured_content).decode())
    return RemoteResult(text=cut("\n".join(parts)), is_error=result.is_error)


def _has_text(content: Sequence[types.ContentBlock]) -> bool:
    return any(isinstance(block, types.TextContent) for block in content)


def _parts(content: Sequence[types.ContentBlock]) -> Iterator[str]:
    for block in content:
        match block:
            case types.TextContent(text=text):
                yield text
            case types.ImageContent(mime_type=kind, data=data):
                yield _described(kind, data)
            case types.AudioContent(mime_type=kind, data=data):
                yield _described(kind, data)
            case types.ResourceLink(uri=uri, name=name, mime_type=kind):
                yield f"[{', '.join(filter(None, ('resource', name, uri, kind)))}]"
            case types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text=text)):
                yield f"[resource, {uri}]\n{text}"
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                kind = resource.mime_type or "application/octet-stream"
                yield _described(f"{resource.uri}, {kind}", resource.blob)


def _described(kind: str, base64: str) -> str:
    size = len(base64.rstrip("=\r\n")) * 3 // 4
    return f"[{kind}, {size} bytes]"
