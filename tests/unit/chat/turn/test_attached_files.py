"""What a model gets of attachments: bytes, texts, or a mention."""

import msgspec
import pytest

from chat.turn.attached_files import (
    MOST_FILE_BYTES,
    MOST_TEXT_BYTES,
    AttachedFiles,
    have_attachments,
    named_block,
)
from sessions_app.errors import AttachmentNotFound
from sessions_app.messages import AssistantMessage, Attachment, Message, ToolMessage, UserMessage

NOW = "2026-11-22T10:00:00.000000+00:00"
CAT = Attachment(id="sha256:ca", name="cat.png", media_type="image/png", size=3)
NOTES = Attachment(id="sha256:00", name="notes.md", media_type="text/plain", size=9)
PAPER = Attachment(id="sha256:da", name="paper.pdf", media_type="application/pdf", size=5)
KEPT = {CAT.id: b"cat", NOTES.id: b"Remember\n", PAPER.id: b"%PDF-"}


def said(content: str, *attachments: Attachment) -> UserMessage:
    return UserMessage(content=content, message_id="1", timestamp=NOW, attachments=attachments)


def read(attachment_id: str) -> bytes:
    try:
        return KEPT[attachment_id]
    except KeyError:
        raise AttachmentNotFound(attachment_id) from None


def loaded(*messages: Message, blind: bool = False) -> tuple[list[str], dict[str, bytes]]:
    takes = {"text/plain"} if blind else {"text/plain", "image/png"}
    found, files = AttachedFiles(read, takes.__contains__).load(messages)
    return [message.content for message in found], dict(files)


def test_an_image_is_sent_as_bytes_once() -> None:
    contents, files = loaded(said("Who?", CAT), said("Again?", CAT))
    assert contents == ["Who?", "Again?"]
    assert files == {CAT.id: b"cat"}


def test_a_text_is_sent_in_the_message_as_a_block_under_its_name() -> None:
    contents, files = loaded(said("Look:", NOTES), said("", NOTES))
    assert contents == [
        "Look:\n\nnotes.md:\n```\nRemember\n```",
        "notes.md:\n```\nRemember\n```",
    ]
    assert files == {}


def test_fences_in_a_text_do_not_end_its_block() -> None:
    assert named_block("a.md", "```\ncode\n````\n").startswith("a.md:\n`````\n")


def test_what_a_model_does_not_take_is_mentioned() -> None:
    contents, files = loaded(said("Read:", PAPER, CAT), blind=True)
    assert contents == ["Read:\n\n[file paper.pdf left out]\n\n[image cat.png left out]"]
    assert files == {}


def test_what_is_cut_off_is_mentioned_and_not_sent_in_half() -> None:
    cut = [msgspec.structs.replace(each, size=each.size + 1) for each in (CAT, NOTES)]
    contents, files = loaded(said("Look!", *cut))
    assert contents == ["Look!\n\n[image cat.png left out]\n\n[file notes.md left out]"]
    assert files == {}


def test_what_is_gone_is_mentioned() -> None:
    gone = Attachment(id="sha256:ff", name="gone.png", media_type="image/png", size=1)
    contents, files = loaded(said("Look!", gone))
    assert contents == ["Look!\n\n[image gone.png left out]"]
    assert files == {}


def test_results_of_tools_have_attachments_too() -> None:
    result = ToolMessage(content="A map.", message_id="1", timestamp=NOW, attachments=(CAT,))
    assert have_attachments([result])
    assert loaded(result) == (["A map."], {CAT.id: b"cat"})


def test_messages_without_attachments_stay_the_same_objects() -> None:
    answer = AssistantMessage(content="Hi", message_id="2", timestamp=NOW)
    messages = [said("Hello"), answer]
    assert not have_attachments(messages)
    found, _ = AttachedFiles(read, lambda _: True).load(messages)
    assert all(one is other for one, other in zip(found, messages, strict=True))


def test_a_text_that_is_named_twenty_times_is_read_and_sent_once() -> None:
    contents, _ = loaded(said("Look:", *[NOTES] * 20))
    assert contents == ["Look:\n\nnotes.md:\n```\nRemember\n```"]


@pytest.mark.parametrize(("media_type", "most"), [("text/plain", 2), ("image/png", 24)])
def test_what_all_messages_together_have_too_much_is_left_out_of_the_oldest(
    media_type: str, most: int
) -> None:
    size = 4 << 20
    reads: list[str] = []

    def read_large(attachment_id: str) -> bytes:
        reads.append(attachment_id)
        return b"x" * size

    messages = [
        said(f"{n}", Attachment(id=f"sha256:{n}", name="a", media_type=media_type, size=size))
        for n in range(30)
    ]
    found, files = AttachedFiles(read_large, lambda _: True).load(messages)
    left_out = [message.content for message in found if "left out" in message.content]
    assert len(reads) == most
    assert len(left_out) == 30 - most
    assert "left out" not in found[-1].content
    assert sum(map(len, files.values())) <= MOST_FILE_BYTES
    assert sum(len(message.content) for message in found) <= MOST_TEXT_BYTES + 10_000
