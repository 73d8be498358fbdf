"""The pure operations on sessions."""

from collections.abc import Callable

import msgspec
import pytest

from sessions_app.errors import (
    InvalidMessageIndex,
    SystemPromptNotSet,
    ValidationFailed,
)
from sessions_app.messages import (
    Attachment,
    Message,
    SystemMessage,
    UserMessage,
)
from sessions_app.session import (
    AgentSettings,
    Session,
    append_messages,
    fork,
    make_session,
    preview_of,
    remove_system_prompt,
    set_system_prompt,
)

LATER = "2026-11-21T11:00:00.000000+00:00"

MakeSession = Callable[..., Session]


def user(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp=LATER)


def system(text: str) -> SystemMessage:
    return SystemMessage(content=text, message_id="s", timestamp=LATER)


def contents(messages: tuple[Message, ...]) -> list[str]:
    return [message.content for message in messages]


def test_appending_counts_previews_and_touches(make_session: MakeSession) -> None:
    session = append_messages(make_session(), system("Be brief."), user("x" * 150), now=LATER)
    assert session.metadata.message_count == 2
    assert session.metadata.preview == "x" * 100
    assert session.metadata.updated_at == LATER


def test_there_is_no_preview_before_the_user_speaks() -> None:
    assert preview_of((system("Be brief."),)) is None


def test_a_message_of_nothing_but_files_is_previewed_by_their_names() -> None:
    files = [
        Attachment(id="sha256:1", name=name, media_type="image/png", size=1)
        for name in ("cat.png", "dog.png")
    ]
    said = msgspec.structs.replace(user(""), attachments=tuple(files))
    assert preview_of((said,)) == "cat.png, dog.png"


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_a_blank_prompt_is_refused(make_session: MakeSession, text: str) -> None:
    with pytest.raises(ValidationFailed):
        set_system_prompt(make_session(), system(text), now=LATER)


def test_a_system_prompt_is_first_and_replaced_in_place(make_session: MakeSession) -> None:
    session = set_system_prompt(make_session("one"), system("Be brief."), now=LATER)
    assert contents(session.messages) == ["Be brief.", "one"]
    session = set_system_prompt(session, system("Be kind."), now=LATER)
    assert contents(session.messages) == ["Be kind.", "one"]
    session = remove_system_prompt(session, now=LATER)
    assert contents(session.messages) == ["one"]
    with pytest.raises(SystemPromptNotSet):
        remove_system_prompt(session, now=LATER)


def test_a_fork_ends_with_the_message_it_names(make_session: MakeSession) -> None:
    session = make_session("one", "answer", "two")
    copy = fork(session, session_id="ffffffffff", now=LATER, message_index=1)
    assert contents(copy.messages) == ["one", "answer"]
    assert copy.metadata.forked_from == {"session_id": session.session_id, "message_index": 1}
    assert (copy.session_id, copy.metadata.created_at) == ("ffffffffff", LATER)
    assert contents(fork(session, session_id="ffffffffff", now=LATER).messages)[-1] == "two"
    with pytest.raises(InvalidMessageIndex):
        fork(session, session_id="ffffffffff", now=LATER, message_index=3)


@pytest.mark.parametrize(
    ("model", "enabled", "agent", "callable_agents"),
    [
        ("qwen3:14b", (), None, ()),
        ("qwen3:14b", ("clerk",), None, ("clerk",)),
        ("agent:coder", ("clerk",), "coder", ("coder",)),
        ("agent", (), None, ()),
        ("ollama:agent:latest", (), None, ()),
    ],
)
def test_an_agent_that_answers_is_the_only_one_that_can_be_called(
    model, enabled, agent, callable_agents
):
    metadata = make_session(
        "0123456789", model, now="t", agent_settings=AgentSettings(enabled_agents=enabled)
    ).metadata
    assert (metadata.answering_agent, metadata.callable_agents) == (agent, callable_agents)
