"""Titles that nobody gave: the beginning of the first message."""

from collections.abc import Callable

import pytest

from sessions_app.labels import titled_by_message, wants_title, with_labels
from sessions_app.messages import FIRST_TITLE_LENGTH, UserMessage
from sessions_app.session import Session, append_messages

LATER = "2026-11-21T11:00:00.000000+00:00"

MakeSession = Callable[..., Session]


def said(session: Session, content: str) -> Session:
    message = UserMessage(content=content, message_id="1", timestamp=LATER)
    return append_messages(session, message, now=LATER)


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("Why is\nthe sea blue?", "Why is the sea blue?"),
        ("x" * 99, "x" * FIRST_TITLE_LENGTH),
        ("sea " * 15 + "blue", "sea " * 14 + "…"),
    ],
)
def test_a_session_is_called_by_its_first_words(
    make_session: MakeSession, content: str, title: str
) -> None:
    session = said(make_session(), content)
    titled = titled_by_message(session)
    assert (titled.metadata.title, titled.metadata.titled_by) == (title, "message")
    assert titled.metadata.updated_at == session.metadata.updated_at
    assert wants_title(titled.metadata)


def test_a_title_that_is_there_stays(make_session: MakeSession) -> None:
    session = with_labels(said(make_session(), "Hello!"), title="The sea", titled_by="person")
    assert titled_by_message(session) is session
    assert not wants_title(session.metadata)


def test_a_session_without_words_has_no_title(make_session: MakeSession) -> None:
    session = make_session()
    assert titled_by_message(session) is session
