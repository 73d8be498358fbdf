"""Messages in a file: references to images and files."""

from typing import Any

import orjson
import pytest

from sessions_app.format.message_format import decode_ours, message_to_json, read_message
from sessions_app.messages import Attachment, ToolMessage, UserMessage

NOW = "2026-11-22T10:00:00.000000+00:00"
CAT = Attachment(
    id="sha256:" + "9f" * 32,
    name="cat.png",
    media_type="image/png",
    size=51234,
    width=800,
    height=600,
)


@pytest.mark.parametrize("message_type", [UserMessage, ToolMessage])
def test_a_message_keeps_its_attachments(message_type: type[Any]) -> None:
    message = message_type(content="Look!", message_id="1", timestamp=NOW, attachments=(CAT,))
    stored = message_to_json(message)
    assert list(stored["attachments"]) == [
        {
            "id": CAT.id,
            "name": "cat.png",
            "media_type": "image/png",
            "size": 51234,
            "width": 800,
            "height": 600,
        }
    ]
    assert stored["content"] == "Look!"
    assert read_message(dict(stored), 0, "a1b2c3d4e5", NOW) == message


def test_a_message_without_attachments_has_no_such_key() -> None:
    stored = message_to_json(UserMessage(content="Hello!", message_id="1", timestamp=NOW))
    assert "attachments" not in stored


def test_messages_as_we_write_them_are_read_in_one_go() -> None:
    message = UserMessage(content="Look!", message_id="1", timestamp=NOW, attachments=(CAT,))
    [read], may_stay = decode_ours(orjson.dumps([message_to_json(message)], default=dict))
    assert (read, may_stay) == (message, True)


def test_attachments_of_a_newer_server_are_kept_as_they_are() -> None:
    stored = message_to_json(
        UserMessage(content="Look!", message_id="1", timestamp=NOW, attachments=(CAT,))
    )
    stored["attachments"] = [{**stored["attachments"][0], "duration": 3}]
    message = read_message(dict(stored), 0, "a1b2c3d4e5", NOW)
    assert message.attachments == ()
    assert list(message_to_json(message)["attachments"]) == stored["attachments"]
