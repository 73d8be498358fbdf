"""What is handed to a call that is a turn of its own."""

from chat.turn.delegation import asked_with
from sessions_app.messages import AssistantMessage, Attachment, ToolMessage, UserMessage

SAID = {"message_id": "m", "timestamp": "t"}
CAT, DOG, OLD = (
    Attachment(id=f"sha256:{name}", name=name, media_type="image/png", size=1)
    for name in ("cat.png", "dog.png", "old.png")
)


def user(*attachments):
    return UserMessage(content="Look.", attachments=attachments, **SAID)


def test_a_delegated_call_is_shown_what_the_user_attached_last():
    answer = AssistantMessage(content="", **SAID)
    result = ToolMessage(content="", attachments=(OLD,), **SAID)

    assert asked_with([user(OLD), answer, user(CAT), user(DOG), answer, result]) == (CAT, DOG)
    assert asked_with([user(OLD), answer, user(), answer]) == ()
    assert asked_with([answer]) == ()
    assert asked_with([]) == ()
