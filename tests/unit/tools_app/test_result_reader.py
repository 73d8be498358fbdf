"""`read_result`, by which a model reads a long result of its session."""

import io
import json
import subprocess
import sys
import time

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import AttachmentService
from sessions_app.messages import Attachment
from tools_app import result_parts
from tools_app.errors import ToolNotFound
from tools_app.output_limit import result_id
from tools_app.result_reader import READ_RESULT, ResultReader
from tools_app.toolset import ToolInvocation

LINES = "".join(f"line {number}\n" for number in range(1, 10_001))


@pytest.fixture
def files(tmp_path):
    return AttachmentService(FileAttachmentStore(tmp_path), max_bytes=1 << 20)


@pytest.fixture
async def read(files):
    kept = await files.keep(LINES.encode(), name="list (whole result).txt")

    async def call(**arguments):
        arguments = {"id": result_id(kept.id), **arguments}
        invocation = ToolInvocation(name="read_result", arguments=arguments, results=[kept])
        return await ResultReader(files).call_tool(invocation)

    return call


async def test_a_part_is_read(read):
    assert (await read(from_line=3, lines=1)).result == "line 3\n[Lines 3 to 3 of 10,000.]"
    assert (await read(search="00$", context=0)).result.startswith("100: line 100\n")
    assert (await read(from_byte=7, bytes=6)).result.startswith("line 2\n")
    assert (await read()).result.splitlines()[-1] == "[Lines 1 to 200 of 10,000.]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"id": "0123456789abcdef"}, "This session has no result '0123456789abcdef'; it has: "),
        ({"id": 3}, "Expected `str`, got `int`"),
        ({"line": 3}, "Object contains unknown field `line`"),
        ({"from_line": 1, "search": "x"}, "Give only one of from_line, from_byte, search."),
        ({"from_line": 0}, "Expected `int` >= 1 - at `$.from_line`"),
        ({"from_line": 1, "lines": 2001}, "Expected `int` <= 2000 - at `$.lines`"),
        ({"from_line": 20_000}, "from_line must be at most 10000"),
        ({"from_byte": 0, "bytes": 49_153}, "Expected `int` <= 49152 - at `$.bytes`"),
        ({"search": "x", "context": 11}, "Expected `int` <= 10 - at `$.context`"),
        ({"search": "["}, "search is not a regular expression of Python: "),
    ],
)
async def test_bad_input_is_told_to_the_model(read, arguments, words):
    result = await read(**arguments)

    assert (result.success, result.error_code) == (False, "VALIDATION_ERROR")
    assert words in result.error_message


async def test_a_pattern_that_takes_for_ever_is_stopped_after_a_second(files):
    kept = await files.keep(b"a" * 5000 + b"b", name="list (whole result).txt")
    arguments = {"id": result_id(kept.id), "search": "^(a+)+$"}
    invocation = ToolInvocation(name="read_result", arguments=arguments, results=[kept])
    begun = time.monotonic()

    result = await ResultReader(files).call_tool(invocation)

    assert result.error_code == "VALIDATION_ERROR"
    assert result.error_message == ("The search took longer than a second: use a simpler pattern.")
    assert time.monotonic() - begun < 10


async def test_a_process_that_can_not_be_started_is_told(read, monkeypatch):
    def start_none(*args, **more):
        raise BlockingIOError

    monkeypatch.setattr(subprocess, "run", start_none)

    assert (await read()).error_code == "SERVICE_UNAVAILABLE"


def test_what_fills_the_memory_is_told(monkeypatch, capsys):
    def fill_memory(*_):
        raise MemoryError

    monkeypatch.setattr(result_parts, "limit_resources", lambda: None)
    monkeypatch.setattr(result_parts, "part_of", fill_memory)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"from_byte": 0}\ntext')))

    result_parts.main()

    assert "use a simpler pattern" in json.loads(capsys.readouterr().out)["fault"]


async def test_a_result_that_is_gone_is_told_with_what_to_do(files):
    gone = Attachment(id=f"sha256:{'0' * 64}", name="x", media_type="text/plain", size=3)
    arguments = {"id": result_id(gone.id)}
    invocation = ToolInvocation(name="read_result", arguments=arguments, results=[gone])

    result = await ResultReader(files).call_tool(invocation)

    assert result.error_message == "This result is not kept any more: call its tool again."


async def test_without_results_it_is_no_tool(files):
    reader = ResultReader(files)

    assert (await reader.listing()).tools == {}
    with pytest.raises(ToolNotFound):
        await reader.call_tool(ToolInvocation(name="read_result", arguments={}))


def test_its_schema_is_flat_and_small():
    properties = READ_RESULT.parameters["properties"]
    assert [*properties] == ["id", "from_line", "lines", "from_byte", "bytes", "search", "context"]
    assert READ_RESULT.parameters["required"] == ["id"]
