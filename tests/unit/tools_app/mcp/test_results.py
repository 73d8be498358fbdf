"""Results of MCP tools as text for a model."""

import mcp_types as types

from tools_app.mcp.results import result_of
from tools_app.output_limit import MAX_OUTPUT_BYTES


def result(*content, **more):
    return result_of(types.CallToolResult(content=list(content), **more))


def text(value):
    return types.TextContent(text=value)


def test_texts_are_joined():
    assert result(text("one"), text("two")).text == "one\ntwo"


def test_what_is_no_text_is_described():
    image = types.ImageContent(data="AAAAAA==", mime_type="image/png")
    audio = types.AudioContent(data="AAAA", mime_type="audio/wav")
    link = types.ResourceLink(uri="file:///a", name="a", mime_type="text/plain")
    page = types.EmbeddedResource(resource=types.TextResourceContents(uri="x:1", text="hello"))
    blob = types.EmbeddedResource(resource=types.BlobResourceContents(uri="x:2", blob="AAAA"))

    assert result(image, audio, link, page, blob).text.split("\n") == [
        "[image/png, 4 bytes]",
        "[audio/wav, 3 bytes]",
        "[resource, a, file:///a, text/plain]",
        "[resource, x:1]",
        "hello",
        "[x:2, application/octet-stream, 3 bytes]",
    ]


def test_structured_content_is_shown_where_there_is_no_text():
    assert result(structured_content={"a": [1, "ä"]}).text == '{"a":[1,"ä"]}'
    assert result(text("a is 1"), structured_content={"a": 1}).text == "a is 1"


def test_an_error_is_one():
    assert result(text("no"), is_error=True).is_error


def test_a_long_text_is_cut_with_a_marker_and_no_character_is_broken():
    shown = result(text("ä" * MAX_OUTPUT_BYTES)).text

    assert shown.startswith("ä" * (MAX_OUTPUT_BYTES // 2) + "\n\n[cut: 65,536 of 131,072 bytes")
