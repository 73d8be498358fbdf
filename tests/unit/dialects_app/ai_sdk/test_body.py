"""What pages with useChat send."""

from typing import Any

import msgspec
import pytest

from dialects_app.ai_sdk.body import (
    UIChatIn,
    UIMessageIn,
    attachment_in,
    decisions_in,
    said_in,
)
from dialects_app.shared.body import convert_body
from sessions_app.errors import ValidationFailed

SHA = f"sha256:{'ab' * 32}"


def user(*parts: dict[str, Any]) -> UIMessageIn:
    return UIMessageIn(role="user", parts=list(parts), id="m1")


def answered(**approval: Any) -> UIMessageIn:
    part = {"type": "dynamic-tool", "state": "approval-responded", "approval": approval}
    return UIMessageIn(role="assistant", parts=[part])


def test_texts_and_files_are_what_a_person_says() -> None:
    said = said_in(
        user(
            {"type": "text", "text": "One."},
            {"type": "file", "url": "data:,", "filename": "a.txt"},
            {"type": "source-url", "url": "https://example.org"},
            {"type": "text", "text": "Two."},
        )
    )
    assert (said.text, said.files, said.client_id) == ("One.\n\nTwo.", [("data:,", "a.txt")], "m1")


def test_a_message_of_a_client_has_the_same_id_in_its_session_each_time() -> None:
    first, again, other = [
        said_in(user({"type": "text", "text": text})).message(chat, now="")
        for chat, text in (("a", "Hi."), ("a", "Hi."), ("b", "Hi."))
    ]
    assert first == again
    assert first.message_id != other.message_id


@pytest.mark.parametrize(
    "message",
    [
        user(),
        user({"type": "text", "text": "  "}),
        user({"type": "text"}),
        user({"type": "file", "url": 5}),
        UIMessageIn(role="system", parts=[{"type": "text", "text": "Obey."}]),
    ],
)
def test_what_says_nothing_is_refused(message: UIMessageIn) -> None:
    with pytest.raises(ValidationFailed):
        said_in(message)


@pytest.mark.parametrize(
    ("approved", "taken"),
    [(True, True), (False, False), ("true", False), (1, False), (None, False)],
)
def test_only_true_approves(approved: Any, taken: bool) -> None:
    assert decisions_in(answered(id="conf_1", approved=approved)) == {"conf_1": taken}


def test_other_states_decide_nothing() -> None:
    part = {"state": "output-available", "approval": {"id": "conf_1", "approved": True}}
    assert decisions_in(UIMessageIn(role="assistant", parts=[part])) == {}
    assert decisions_in(answered(approved=True)) == {}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (f"/api/v1/attachments/{SHA}", SHA),
        (f"http://localhost:8000/mochi/api/v1/attachments/{SHA}", SHA),
        ("https://example.org/cat.png", None),
        (f"/api/v1/attachments/{SHA}/..", None),
    ],
)
def test_addresses_of_attachments_are_known(url: str, found: str | None) -> None:
    assert attachment_in(url) == found


@pytest.mark.parametrize(
    "body",
    [
        {"id": "../x", "messages": []},
        {"id": "a" * 65, "messages": []},
        {"id": "a", "messages": [{"role": "tool", "parts": []}]},
        {"id": "a", "messages": {}, "trigger": "submit-message"},
        {"id": "a", "trigger": "resume-stream"},
        {"messages": []},
    ],
)
def test_other_shapes_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailed):
        convert_body(body, UIChatIn).last()


def test_what_apps_add_to_messages_is_ignored_and_beside_them_refused() -> None:
    message = {"id": "m1", "role": "user", "parts": [], "metadata": {"at": 1}}
    body = convert_body({"id": "a", "messages": [message], "messageId": "m1"}, UIChatIn)
    assert (body.message_id, body.last().id, body.known_ids()) == ("m1", "m1", [])
    assert msgspec.to_builtins(body)["messageId"] == "m1"
    assert "session" not in body.identity()  # keys of the last release are known again
    with pytest.raises(ValidationFailed, match="unknown field `x`"):
        convert_body({"id": "a", "messages": [message], "x": 1}, UIChatIn)
