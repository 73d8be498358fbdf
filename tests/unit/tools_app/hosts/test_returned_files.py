"""Images and files that functions return: found, named and sent to the server as they are."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.attachments.references import WHOLE_RESULT
from tests.unit.sessions_app.attachments.images import PDF, gif, png
from tools_app.errors import EXECUTION_FAILED
from tools_app.hosts.messages import MAX_FILES, MAX_FILES_BYTES
from tools_app.hosts.pool import HostPool
from tools_app.hosts.returned_files import text_and_files
from tools_app.toolset import ToolFile

ENCODED = base64.b64encode(png()).decode()


class Drawing:
    def __init__(self, shown: object) -> None:
        self.shown = shown

    def _repr_png_(self) -> object:
        return self.shown

    def __str__(self) -> str:
        return "a drawing"


def found(value: object) -> tuple[str, list[tuple[str, bytes]]]:
    text, files = text_and_files(value, "plot")
    return text, [(file.name, file.data) for file in files]


@pytest.mark.parametrize(
    ("value", "name", "data"),
    [
        (png(), "plot.png", png()),
        (bytearray(gif()), "plot.gif", gif()),
        (memoryview(PDF), "plot.pdf", PDF),
        (Drawing(png()), "plot.png", png()),
        ({"type": "image", "data": png()}, "plot.png", png()),
        ({"type": "image", "data": f"{ENCODED[:8]}\n{ENCODED[8:]}"}, "plot.png", png()),
        ({"type": "image", "data": ENCODED, "name": "../a cat.png"}, "a-cat.png", png()),
        ({"type": "image", "data": ENCODED, "mimeType": "image/gif"}, "plot.png", png()),
        ({"type": "file", "data": b"a,b\n", "name": "table.csv"}, "table.csv", b"a,b\n"),
    ],
)
def test_files_are_found_and_mentioned(value: object, name: str, data: bytes) -> None:
    assert found(value) == (f"[{name}, {len(data)} bytes]", [(name, data)])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("words", "words"),
        (b"words", "words"),
        ([1, "a"], '[1,"a"]'),
        ([], "[]"),
        ({"type": "image", "data": "words"}, '{"type":"image","data":"words"}'),
        ({"type": "image", "data": "d29yZHM="}, '{"type":"image","data":"d29yZHM="}'),
        ({"type": "file", "data": ENCODED[:4]}, f'{{"type":"file","data":"{ENCODED[:4]}"}}'),
        ({"type": "image"}, '{"type":"image"}'),
        ({"type": ["image"], "data": "x"}, '{"type":["image"],"data":"x"}'),
        (Drawing(None), '"a drawing"'),
        (Drawing(b"no image"), '"a drawing"'),
    ],
)
def test_anything_else_is_text_as_ever(value: object, text: str) -> None:
    assert found(value) == (text, [])


def test_a_list_mixes_files_and_words() -> None:
    named = {"type": "file", "data": PDF, "name": "report.pdf"}

    text, files = found(["Before:", png(), {"after": 1}, png(), named])

    assert text.split("\n") == [
        "Before:",
        f"[plot.png, {len(png())} bytes]",
        '{"after":1}',
        f"[plot-2.png, {len(png())} bytes]",
        f"[report.pdf, {len(PDF)} bytes]",
    ]
    assert [name for name, _ in files] == ["plot.png", "plot-2.png", "report.pdf"]


def test_what_is_too_much_stays_with_the_function() -> None:
    half = png(padding=MAX_FILES_BYTES // 2)

    text, files = found([half, half, png()])

    assert [name for name, _ in files] == ["plot.png", "plot-2.png"]
    refused = "[plot-2.png was not handed over: 33,554,432 bytes of files are the most.]"
    assert text.split("\n")[1] == refused

    text, files = found([png()] * (MAX_FILES + 1))

    assert len(files) == MAX_FILES
    assert text.endswith("[plot-101.png was not handed over: 100 files are the most.]")


async def test_a_process_hands_over_bytes_as_they_are(serve: Callable[..., HostPool]) -> None:
    hosts = serve("""
        __all__ = ["show"]
        def show(size: int) -> list:
            "Show."
            large = {"type": "file", "name": "large.bin", "data": bytes(range(256)) * (size // 256)}
            return ["Shown:", {"type": "file", "name": "none.txt", "data": b""}, large]
    """)

    for _ in range(2):  # and the process can be used again
        shown = await hosts.call("show", {"size": 24 << 20}, timeout_seconds=60)

        assert shown.result == "Shown:\n[none.txt, 0 bytes]\n[large.bin, 25165824 bytes]"
        assert shown.files == [
            ToolFile(name="none.txt", data=b""),
            ToolFile(name="large.bin", data=bytes(range(256)) * (24 << 12)),
        ]


@pytest.mark.parametrize(
    ("files", "sent"),
    [
        ('[{"name": "a", "size": 40000000}]', 'b""'),
        ('[{"name": "a", "size": -1}]', 'b""'),
        ('[{"name": "a", "size": 1}] * 101', 'b""'),
        ('[{"name": "a", "size": 2}]', 'b"\\0\\0\\0\\3abc"'),
        ('[{"name": "a", "size": 2}]', 'b"\\0\\0\\0\\1a"'),
    ],
)
async def test_a_process_that_lies_about_files_is_ended(
    serve: Callable[..., HostPool], files: Any, sent: str
) -> None:
    hosts = serve(f"""
        import json, os, struct, time
        __all__ = ["lie"]
        CALLS = next(fd for fd in range(3, 99) if os.path.exists(f"/proc/self/fd/{{fd}}"))
        def lie() -> str:
            "Lie."
            body = json.dumps({{"type": "returned", "text": "", "files": {files}}}).encode()
            os.write(CALLS, struct.pack("!I", len(body)) + body + {sent})
            time.sleep(600)
    """)

    lied = await hosts.call("lie", {}, timeout_seconds=60)

    assert lied.error_code == EXECUTION_FAILED
    assert "broke its connection" in (lied.error_message or "")


async def test_names_that_a_process_sends_are_no_paths(serve: Callable[..., HostPool]) -> None:
    hosts = serve("""
        import msgspec
        from tools_app.hosts import answers
        __all__ = ["lie"]
        answers.FileHead = lambda name, size: FileHead(name="../../etc/passwd", size=size)
        from tools_app.hosts.messages import FileHead
        def lie() -> bytes:
            "Lie."
            return {"type": "file", "data": b"x"}
    """)

    lied = await hosts.call("lie", {}, timeout_seconds=60)

    assert lied.files == [ToolFile(name="etc-passwd", data=b"x")]


async def test_a_long_text_comes_whole_with_the_files_unless_it_is_too_long(
    serve: Callable[..., HostPool],
) -> None:
    hosts = serve("""
        __all__ = ["talk"]
        def talk(megabytes: int) -> list:
            "Talk."
            picture = {"type": "file", "name": "a.txt", "data": b"abc"}
            return ["x" + "ä" * (megabytes << 19), picture]
    """)

    long = await hosts.call("talk", {"megabytes": 20}, timeout_seconds=60)
    too_long = await hosts.call("talk", {"megabytes": 32}, timeout_seconds=60)

    text = b"x" + "ä".encode() * (20 << 19) + b"\n[a.txt, 3 bytes]"
    picture, whole = ToolFile(name="a.txt", data=b"abc"), ToolFile(name=WHOLE_RESULT, data=text)
    assert long.files == [picture, whole]
    assert (too_long.success, too_long.files) == (True, [picture])
    for result in (long, too_long):
        assert "[cut: " in (result.result or "")[-80:]
