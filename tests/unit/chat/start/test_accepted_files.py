"""What a model does not take is refused before it is saved, in words that help."""

import msgspec
import pytest

from chat.start.accepted_files import require_room, require_takes
from models_app.language_model import ModelInfo
from sessions_app.errors import ValidationFailed
from sessions_app.messages import Attachment, Message, ToolMessage
from tests.unit.chat.context.pictures import answered, asked, image, pdf, text

CLAUDE = ModelInfo(name="anthropic:claude", size_mb=0, provider="anthropic")
BLIND = ModelInfo(name="llama3:8b", size_mb=0, capabilities=("completion",))
SEEING = ModelInfo(name="llava:7b", size_mb=0, capabilities=("completion", "vision"))


@pytest.mark.parametrize(
    ("info", "attachment", "said"),
    [
        (BLIND, image(), "takes no image/png (cat.png). Choose a model that does: one with"),
        (SEEING, pdf(), "takes no application/pdf (report.pdf). Choose a model that does."),
        (CLAUDE, image(width=9000, height=5), "up to 8,000 pixels a side, and cat.png has 9,000"),
    ],
)
def test_what_a_model_does_not_take_is_named_with_what_to_do(
    info: ModelInfo, attachment: Attachment, said: str
) -> None:
    with pytest.raises(ValidationFailed) as refused:
        require_takes(info, [asked(1, text(), attachment)])
    assert said in refused.value.message
    assert refused.value.details == {
        "field": "attachments",
        "model": info.name,
        "media_type": attachment.media_type,
    }


def test_of_several_messages_the_one_that_is_at_fault_is_named() -> None:
    brought = [asked(1, image()), answered(1), asked(2, text()), asked(3, image())]
    with pytest.raises(ValidationFailed) as refused:
        require_takes(BLIND, brought[1:], brought=brought)
    assert refused.value.details["field"] == "messages[3]"


@pytest.mark.parametrize(
    ("info", "messages"),
    [
        (None, [asked(1, image(), pdf())]),
        (BLIND, [asked(1, text())]),
        (BLIND, [asked(1, image()), answered(1), asked(2)]),
        (CLAUDE, [asked(1, image(), pdf())]),
        (
            BLIND,
            [
                ToolMessage(content="", message_id="1", timestamp="t", attachments=(image(),)),
                asked(1),
            ],
        ),
    ],
)
def test_what_it_takes_and_what_is_of_a_history_passes(
    info: ModelInfo | None, messages: list[Message]
) -> None:
    require_takes(info, messages)


def of_size(attachment: Attachment, mebibytes: int, number: int = 0) -> Attachment:
    return msgspec.structs.replace(attachment, id=f"sha256:{number}", size=mebibytes << 20)


@pytest.mark.parametrize(
    ("context", "attachments", "kind"),
    [
        (None, [of_size(text(), 20)], "texts"),
        (100_000, [of_size(text(), 2)], "texts"),
        (None, [of_size(text(), 2, n) for n in range(5)], "texts"),
        (None, [of_size(image(), 20, n) for n in range(5)], "files"),
    ],
)
def test_what_is_far_beyond_a_request_is_refused_unread(
    context: int | None, attachments: list[Attachment], kind: str
) -> None:
    info = ModelInfo(name="m", size_mb=0, context_length=context)
    with pytest.raises(ValidationFailed, match=f"The {kind} of this message have"):
        require_room(info, [asked(1, *attachments)])


def test_a_text_that_is_named_twenty_times_counts_once() -> None:
    require_room(None, [asked(1, *[of_size(text(), 5)] * 20)])
