"""Results of MCP tools as text for a model."""

import base64
import json

import pytest

from sessions_app.attachments.references import WHOLE_RESULT
from tests.unit.sessions_app.attachments.images import PDF, gif, png
from tools_app.limits import MAX_OUTPUT_BYTES
from tools_app.mcp.limits import MAX_BLOCKS
from tools_app.mcp.results import json_text, result_of


def result(*content, **more):
    return result_of({"content": list(content), **more}, "see")


def text(value):
    return {"type": "text", "text": value}


def test_texts_are_joined():
    assert result(text("one"), text("two")).result == "one\ntwo"


def image(data, kind="image/png"):
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": kind}


def blob(data, uri):
    encoded = base64.encodebytes(data).decode()  # in lines, as some servers write it
    return {"type": "resource", "resource": {"uri": uri, "blob": encoded}}


def test_what_is_neither_text_nor_file_is_described():
    audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    link = {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"}
    page = {"type": "resource", "resource": {"uri": "x:1", "text": "hello"}}

    shown = result(audio, link, page)

    assert shown.files == []
    assert shown.result.split("\n") == [
        "[audio/wav, 3 bytes]",
        "[resource, a, file:///a, text/plain]",
        "[resource, x:1]",
        "hello",
    ]


def test_images_and_files_are_taken_out_and_named_where_they_were():
    sent = [text("Before:"), image(png()), text("After:"), image(gif(), "image/png")]
    report = blob(PDF, "file:///home/me/My%20report.pdf")

    shown = result(*sent, report, blob(b"\0\0", "x:"))

    assert shown.result.split("\n") == [
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
    texts = ("iVBOR!!", "iVBOR", "é")

    shown = result(*({"type": "image", "data": data, "mimeType": "image/png"} for data in texts))

    assert shown.result.split("\n") == ["[image/png, not valid Base64]"] * 3
    assert shown.files == []


def test_structured_content_is_shown_where_there_is_no_text():
    assert result(structuredContent={"a": [1, "ä"]}).result == '{"a":[1,"ä"]}'
    assert result(text("a is 1"), structuredContent={"a": 1}).result == "a is 1"


def test_an_error_is_one():
    assert not result(text("no"), isError=True).success


def test_a_long_text_is_cut_with_a_marker_and_no_character_is_broken():
    shown = result(text("ä" * MAX_OUTPUT_BYTES))

    assert shown.result.startswith("ä" * (MAX_OUTPUT_BYTES // 2) + "\n\n[cut: 65,536 of 131,072 ")
    assert [file.data for file in shown.files] == [("ä" * MAX_OUTPUT_BYTES).encode()]


def test_long_structured_content_is_whole_beside_its_beginning():
    value = {"rows": [{"n": n} for n in range(20_000)]}

    shown = result(structuredContent=value)

    assert shown.result.startswith('{"rows":[{"n":0},')
    [whole] = shown.files
    assert (whole.name, json.loads(whole.data)) == (WHOLE_RESULT, value)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({}, "The tool ran and returned nothing."),
        ({"content": []}, "The tool ran and returned nothing."),
        ({"content": None, "isError": None}, "The tool ran and returned nothing."),
        ({"content": "plain"}, "plain"),
        ({"content": {"type": "text", "text": "one"}}, "one"),
        ({"content": ["a", {"text": "b"}]}, "a\nb"),
        ({"content": [{"type": "text", "text": 5}]}, '{"type":"text","text":5}'),
        ({"content": [{"type": "video", "url": "x"}]}, '{"type":"video","url":"x"}'),
        ({"content": [7, None]}, "7\nnull"),
        ({"content": [{"type": "resource_link", "uri": "a:b"}]}, "[resource, a:b]"),
        ({"content": [{"type": "resource", "resource": {"text": "t"}}]}, "[resource, ]\nt"),
        ({"content": [{"type": "resource"}]}, '{"type":"resource"}'),
        ({"content": [{"type": "image", "data": None}]}, '{"type":"image","data":null}'),
        ({"structuredContent": [1]}, "[1]"),
        ({"structuredContent": {}}, "{}"),
        ({"toolResult": {"a": 1}}, '{"toolResult":{"a":1}}'),
    ],
)
def test_whatever_came_is_shown(sent, shown):
    assert result_of(sent, "see").result == shown


def test_only_true_is_an_error():
    assert not any(result_of({"isError": value}, "t").success for value in (True, "true"))
    assert all(result_of({"isError": value}, "t").success for value in (None, 0, "no", {}))


def test_a_data_url_is_an_image():
    encoded = base64.b64encode(png()).decode()
    block = {"type": "image", "data": f"data:image/png;base64,{encoded}"}

    assert [file.data for file in result(block).files] == [png()]


def test_an_unknown_block_is_shown_in_part():
    shown = result({"type": "video", "data": "x" * 1_000_000}, text("after")).result

    assert len(shown) < 20_000
    assert "[cut:" in shown
    assert shown.endswith("\nafter")


def test_of_millions_of_values_only_the_beginning_is_encoded():
    assert len(json_text([[1]] * 10**6)) < MAX_OUTPUT_BYTES + 100


def test_of_many_blocks_the_first_are_shown():
    shown = result(*["x"] * (MAX_BLOCKS + 5)).result

    assert shown.endswith("x\n[5 further blocks are not shown]")
    assert shown.count("x\n") == MAX_BLOCKS
