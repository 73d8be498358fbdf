"""Results of MCP tools as text for a model."""

import base64

import mcp_types as types

from tests.unit.sessions_app.attachments.images import PDF, gif, png
from tools_app.mcp.results import result_of
from tools_app.output_limit import MAX_OUTPUT_BYTES


def result(*content, **more):
    return result_of(types.CallToolResult(content=list(content), **more), "see")


def text(value):
    return types.TextContent(text=value)


def test_texts_are_joined():
    assert result(text("one"), text("two")).text == "one\ntwo"


def image(data, kind="image/png"):
    return types.ImageContent(data=base64.b64encode(data).decode(), mime_type=kind)


def blob(data, uri):
    encoded = base64.encodebytes(data).decode()  # in lines, as some servers write it
    return types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, blob=encoded))


def test_what_is_neither_text_nor_file_is_described():
    audio = types.AudioContent(data="AAAA", mime_type="audio/wav")
    link = types.ResourceLink(uri="file:///a", name="a", mime_type="text/plain")
    page = types.EmbeddedResource(resource=types.TextResourceContents(uri="x:1", text="hello"))

    shown = result(audio, link, page)

    assert shown.files == []
    assert shown.text.split("\n") == [
        "[audio/wav, 3 bytes]",
        "[resource, a, file:///a, text/plain]",
        "[resource, x:1]",
        "hello",
    ]


def test_images_and_files_are_taken_out_and_named_where_they_were():
    sent = [text("Before:"), image(png()), text("After:"), image(gif(), "image/png")]
    report = blob(PDF, "file:///home/me/My%20report.pdf")

    shown = result(*sent, report, blob(b"\0\0", "x:"))

    assert shown.text.split("\n") == [
        "Before:",
        f"[see.png, {len(png())} bytes]",
        "After:",
        f"[see-2.gif, {len(gif())} bytes]",
        f"[My-report.pdf, {len(PDF)} bytes]",
        "[see-4, 2 bytes]",
    ]
    assert [(file.name, file.data) for file in shown.files] == [
        ("see.png", png()),
        ("see-2.gif", gif()),
        ("My-report.pdf", PDF),
        ("see-4", b"\0\0"),
    ]


def test_what_is_no_base64_is_said_to_be_none():
    odd = types.ImageContent(data="iVBOR!!", mime_type="image/png")
    cut_off = types.ImageContent(data="iVBOR", mime_type="image/png")
    other = types.ImageContent(data="é", mime_type="image/png")

    shown = result(odd, cut_off, other)

    assert shown.text.split("\n") == ["[image/png, not valid Base64]"] * 3
    assert shown.files == []


def test_structured_content_is_shown_where_there_is_no_text():
    assert result(structured_content={"a": [1, "ä"]}).text == '{"a":[1,"ä"]}'
    assert result(text("a is 1"), structured_content={"a": 1}).text == "a is 1"


def test_an_error_is_one():
    assert result(text("no"), is_error=True).is_error


def test_a_long_text_is_cut_with_a_marker_and_no_character_is_broken():
    shown = result(text("ä" * MAX_OUTPUT_BYTES)).text

    assert shown.startswith("ä" * (MAX_OUTPUT_BYTES // 2) + "\n\n[cut: 65,536 of 131,072 bytes")
