"""A conversation as Markdown names what is attached."""

import msgspec

from sessions_app.export import to_markdown
from sessions_app.messages import Attachment, ToolMessage, UserMessage
from sessions_app.session import append_messages, make_session

NOW = "2026-11-22T10:00:00.000000+00:00"
CAT = Attachment(
    id=f"sha256:{'ca' * 32}",
    name="[my](x) *cat*.png",
    media_type="image/png",
    size=51234,
    width=800,
    height=600,
)
NOTES = msgspec.structs.replace(CAT, name="notes.txt", media_type="text/plain", width=None)


def test_attachments_of_messages_and_results_are_named_and_write_no_markup() -> None:
    session = append_messages(
        make_session("a1b2c3d4e5", "m", now=NOW),
        UserMessage(content="Look!", message_id="1", timestamp=NOW, attachments=(CAT,)),
        UserMessage(content="", message_id="2", timestamp=NOW, attachments=(NOTES,)),
        ToolMessage(
            content="4", message_id="3", timestamp=NOW, tool_name="add", attachments=(NOTES,)
        ),
        now=NOW,
    )
    cat = r"_Attached: \[my\](x) \*cat\*.png (image/png, 51,234 bytes, 800 x 600)_"
    notes = "_Attached: notes.txt (text/plain, 51,234 bytes)_"
    text = to_markdown(session)
    assert f"Look!\n\n{cat}\n" in text
    assert text.count(notes) == 2
