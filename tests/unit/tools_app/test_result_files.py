"""Files of results: kept and referred to, or missing with a reason that the model reads."""

import hashlib
import logging

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.references import WHOLE_RESULT
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import StorageFull
from tests.unit.sessions_app.attachments.images import PDF, gif, png
from tests.unit.tools_app.kept_files import keeper
from tools_app.result_files import ResultFiles
from tools_app.toolset import ToolFile, ToolResult


def files(*contents):
    return [ToolFile(name=f"f{number}", data=data) for number, data in enumerate(contents)]


async def test_a_result_without_files_is_left_as_it_is():
    result = ToolResult(success=True, result="3")

    assert await keeper().kept(result) is result


async def test_files_become_references():
    kept = await keeper().kept(ToolResult(success=True, result="Two.", files=files(png(), PDF)))

    assert kept.files == ()
    assert kept.result == "Two."
    assert [(each.name, each.media_type, each.size) for each in kept.attachments] == [
        ("f0", "image/png", len(png())),
        ("f1", "application/pdf", len(PDF)),
    ]
    assert kept.attachments[0].id == f"sha256:{hashlib.sha256(png()).hexdigest()}"


async def test_the_same_file_twice_is_one_reference():
    kept = await keeper().kept(ToolResult(success=True, result="", files=files(png(), png())))

    assert [each.name for each in kept.attachments] == ["f0"]


async def test_what_is_not_kept_is_told_and_the_rest_is_kept():
    given = files(png(padding=2000), b"\0\1", gif())

    kept = await keeper(max_bytes=1000).kept(ToolResult(success=True, result="Hm.", files=given))

    lines = (kept.result or "").split("\n")
    assert lines[0] == "Hm."
    assert lines[1].startswith("[f0 was not kept: ")
    assert "1,000" in lines[1]
    assert lines[2] == "[f1 was not kept: It is neither an image, nor a PDF, nor a text.]"
    assert [each.name for each in kept.attachments] == ["f2"]
    assert kept.success


async def test_more_files_than_a_message_may_have_are_counted():
    given = files(*(png(width) for width in range(1, 6)))

    kept = await keeper(most=3).kept(ToolResult(success=True, result="", files=given))

    assert [each.name for each in kept.attachments] == ["f0", "f1", "f2"]
    assert kept.result == "[2 more files were not kept: 3 are the most.]"


@pytest.mark.parametrize("result", [None, "Shown."])
async def test_a_failure_keeps_its_files_and_stays_one(result):
    failure = ToolResult(
        success=False, result=result, error_message="No.", error_code="X", files=files(png(), b"\0")
    )

    kept = await keeper().kept(failure)

    assert not kept.success
    assert len(kept.attachments) == 1
    said = kept.error_message if result is None else kept.result
    assert (said or "").startswith("No.\n[f1 was not" if result is None else "Shown.\n[f1 was not")


LONG = b"".join(b"line %06d\n" % number for number in range(10_000))
WHOLE = ToolFile(name=WHOLE_RESULT, data=LONG)


async def test_a_long_text_is_kept_whole_and_its_result_says_how_to_read_it():
    result = ToolResult(success=True, result="Cut.", files=[*files(png()), WHOLE])

    kept = await keeper().kept(result, tool_name="works__list")

    whole, picture = kept.attachments
    assert (whole.name, whole.media_type) == ("works__list (whole result).txt", "text/plain")
    assert (whole.size, picture.media_type) == (len(LONG), "image/png")
    assert (kept.result or "").startswith("line 000000\n")
    assert f'read_result {{"id": "{whole.id[7:23]}", "from_line": 1' in (kept.result or "")
    assert kept.files == ()


async def test_a_long_failure_is_kept_whole_too():
    result = ToolResult(success=False, error_message="Cut.", error_code="X", files=[WHOLE])

    kept = await keeper().kept(result, tool_name="list")

    assert not kept.success
    assert len(kept.attachments) == 1
    assert "bytes in 10,000 lines were kept." in (kept.error_message or "")


@pytest.mark.parametrize(
    ("how", "data", "tool_name"),
    [
        ({"max_bytes": 1000}, LONG, "list"),
        ({"fault": StorageFull("The disk is full.")}, LONG, "list"),
        ({"most": 0}, LONG, "list"),
        ({}, b"\0" + LONG, "list"),
        ({}, b"%PDF-1.7 is how such files begin" + LONG, "list"),
        ({}, LONG, ""),
    ],
    ids=["too large", "a full disk", "no files", "no text", "as a PDF begins", "no session"],
)
async def test_a_long_text_that_can_not_be_kept_stays_cut(how, data, tool_name):
    whole = ToolFile(name=WHOLE_RESULT, data=data)
    result = ToolResult(success=True, result="line\n\n[cut: ...]", files=[whole])

    kept = await keeper(**how).kept(result, tool_name=tool_name)

    assert (kept.result, kept.attachments, kept.files) == ("line\n\n[cut: ...]", (), ())


async def test_bombs_and_rubbish_are_refused_by_the_store_itself(tmp_path):
    service = AttachmentService(FileAttachmentStore(tmp_path), max_bytes=1000)
    given = files(png(40_000, 40_000), b"", b"\0\xff", png(padding=2000), png()[:20], png())

    kept = await ResultFiles(service, most=20).kept(
        ToolResult(success=True, result="Six.", files=given)
    )

    lines = (kept.result or "").split("\n")
    assert [line.partition(": ")[0] for line in lines[1:]] == [
        f"[f{number} was not kept" for number in range(5)
    ]
    assert all(len(line) > len("[f0 was not kept: .]") for line in lines[1:])
    assert [each.name for each in kept.attachments] == ["f5"]
    assert await service.read(kept.attachments[0].id) == png()


async def test_a_full_disk_costs_the_file_and_not_the_result(caplog):
    given = ToolResult(success=True, result="Here.", files=files(png()))

    with caplog.at_level(logging.WARNING, logger="tools_app.result_files"):
        kept = await keeper(fault=StorageFull("The disk is full.")).kept(given)

    assert kept.result == "Here.\n[f0 was not kept: The disk is full.]"
    assert kept.attachments == ()
    assert "could not be kept" in caplog.text
