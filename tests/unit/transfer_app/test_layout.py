"""What an archive holds is told by names that no path can be."""

import pytest

from sessions_app.format.codec import encode
from sessions_app.messages import AssistantMessage, Attachment, ToolMessage
from sessions_app.session import Session, fork, make_session
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.stores import NOW, id_of, question, reference
from transfer_app.layout import (
    attachment_name,
    attachment_named,
    attachments_of,
    session_name,
    session_named,
)

ID = id_of(b"x")
DIGEST = ID.removeprefix("sha256:")


def test_names_and_ids_say_the_same() -> None:
    assert session_named(session_name("0123456789")) == "0123456789"
    assert attachment_named(attachment_name(ID)) == ID


@pytest.mark.parametrize(
    "name",
    [
        "../chat_sessions/0123456789.json",
        "/chat_sessions/0123456789.json",
        "chat_sessions/../0123456789.json",
        "chat_sessions/0123456789.json\n",
        "chat_sessions/0123456789.JSON",
        "chat_sessions/0123456789abc.json",
        "chat_sessions\\0123456789.json",
        "chat_sessions/٠١٢٣٤٥٦٧٨٩.json",
        f"attachments/00/{DIGEST}",
        f"attachments/{DIGEST[:2]}/{DIGEST}0",
        f"attachments/{DIGEST[:2]}/../{DIGEST}",
        f"attachments/{DIGEST}",
        f"attachments/{DIGEST[:2]}/{DIGEST.upper()}",
    ],
)
def test_other_names_are_of_nothing(name: str) -> None:
    assert session_named(name) is None
    assert attachment_named(name) is None


def test_a_session_refers_to_a_file_once_wherever_it_does() -> None:
    def tool_result(of: Attachment) -> ToolMessage:
        return ToolMessage(content="r", message_id="2", timestamp=NOW, attachments=(of,))

    asked, shown, replaced = (reference(text) for text in (b"asked", b"shown", b"replaced"))
    answer = AssistantMessage(
        content="a", message_id="3", timestamp=NOW, variants=((tool_result(replaced),),)
    )
    session = Session(
        metadata=make_session("0123456789", "m", now=NOW).metadata,
        messages=(question(asked), tool_result(shown), question(asked), answer),
    )
    assert attachments_of(session) == (asked, shown, replaced)


def test_ten_thousand_forks_refer_to_one_file_and_are_small() -> None:
    picture = reference(png(800, 600))
    original = Session(
        metadata=make_session("0123456789", "m", now=NOW).metadata, messages=(question(picture),)
    )
    forks = [
        fork(original, session_id=f"{number:010x}", now=NOW, message_index=None)
        for number in range(10_000)
    ]
    assert {each.id for one in forks for each in attachments_of(one)} == {picture.id}
    assert max(len(encode(one)) for one in forks[::1000]) < 5000
