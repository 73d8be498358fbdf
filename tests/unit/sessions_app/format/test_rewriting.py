"""Writing a file for the price of what is new in it: the same bytes, and the same session."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.format import layout
from sessions_app.format import messages as stored_messages
from sessions_app.format.codec import decode, encode
from sessions_app.format.rewriting import SessionFile, rewrite
from sessions_app.messages import AssistantMessage, Message, ToolCall, UserMessage
from sessions_app.session import Session, append_messages, counted, with_messages, with_metadata
from tests.unit.sessions_app.format.sessions import messages, sessions

SESSION_ID = "a1b2c3d4e5"
NOW = "2026-11-21T10:00:00.000000+00:00"

MakeSession = Callable[..., Session]
Edit = Callable[[Session], Session]


def say(text: str) -> Message:
    return UserMessage(content=text, message_id=text, timestamp=NOW)


def written(session: Session, before: SessionFile | None = None) -> SessionFile:
    """Write a session and return what is kept of it, after a look at the bytes."""
    new = rewrite(session, before)
    data = b"".join(new.pieces())
    assert data == encode(session)
    assert new.size == len(data)
    return new.written(data, SESSION_ID) or SessionFile(decode(data, SESSION_ID), data)


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    """Return something that is done to a session: messages cut off, replaced and appended."""
    cut = draw(st.integers(min_value=0, max_value=3))
    replaced = draw(st.none() | messages)
    appended = draw(st.lists(messages, max_size=2))

    def edit(session: Session) -> Session:
        left = list(session.messages[: len(session.messages) - cut])
        if replaced is not None and left:
            left[len(left) // 2] = replaced
        return with_messages(session, [*left, *appended], now=NOW)

    return edit


@given(sessions, st.lists(edits(), max_size=3))
def test_a_session_that_is_written_again_and_again_is_always_what_its_file_says(
    session: Session, changes: list[Edit]
) -> None:
    file = written(session)
    for change in changes:
        changed = counted(change(file.session))
        file = written(changed, file)
        assert file.session == decode(file.data, SESSION_ID) == changed


@given(sessions, edits())
def test_a_file_of_others_is_written_as_ours(session: Session, change: Edit) -> None:
    foreign = json.dumps(json.loads(encode(session))).encode()
    read = SessionFile(decode(foreign, SESSION_ID), foreign)
    file = written(counted(change(read.session)), read)
    assert file.session == decode(file.data, SESSION_ID)


def reformatted(session: Session) -> bytes:
    """Return a file that begins and ends like ours, with a message in every line."""
    head, opening, rest = encode(session).partition(b'\n  "messages": [\n')
    if not opening:
        return head
    lines = ",\n".join(json.dumps(message) for message in json.loads(encode(session))["messages"])
    return head + opening + lines.encode() + rest[rest.rindex(b"\n  ]") :]


@settings(max_examples=2 * settings.default.max_examples)
@given(sessions, st.booleans(), st.lists(edits(), max_size=4))
def test_text_of_others_stays_and_what_the_file_says_is_right(
    session: Session, is_ours: bool, changes: list[Edit]
) -> None:
    data = encode(session) if is_ours else reformatted(session)
    file = SessionFile.of(data, SESSION_ID)
    for change in changes:
        changed = counted(change(file.session))
        new = rewrite(changed, file)
        data = b"".join(new.pieces())
        file = new.written(data, SESSION_ID) or SessionFile.of(data, SESSION_ID)
        assert file.session == decode(data, SESSION_ID) == changed
        assert data == encode(changed) or not is_ours


def test_a_file_that_was_not_written_here_is_not_encoded_anew(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Message] = []
    to_json = stored_messages.message_to_json

    def count(message: Message) -> dict[str, Any]:
        encoded.append(message)
        return to_json(message)

    file = SessionFile.of(encode(make_session("one", "two", "three")), SESSION_ID)
    monkeypatch.setattr(stored_messages, "message_to_json", count)
    more = append_messages(file.session, say("four"), now=NOW)
    data = b"".join(rewrite(more, file).pieces())
    assert encoded == [more.messages[-1]]
    assert data == encode(more)


@pytest.mark.parametrize("time", ["2025-01-15T10:00:00", "2025-01-15T10:00:00+01:00", "once"])
def test_times_of_older_files_are_written_as_ours(make_session: MakeSession, time: str) -> None:
    older = encode(make_session("one")).replace(NOW.encode(), time.encode())
    file = SessionFile.of(older, SESSION_ID)
    more = append_messages(file.session, say("two"), now=NOW)
    assert b"".join(rewrite(more, file).pieces()) == encode(more)


def test_only_what_is_new_is_encoded_and_decoded(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Message] = []
    to_json = stored_messages.message_to_json

    def count(message: Message) -> dict[str, Any]:
        encoded.append(message)
        return to_json(message)

    monkeypatch.setattr(stored_messages, "message_to_json", count)
    file = written(make_session("one", "two", "three", "four"))
    encoded.clear()
    more = append_messages(file.session, say("five"), now=NOW)
    grown = written(more, file)
    assert encoded == [more.messages[-1]]
    assert all(map(lambda old, new: old is new, file.session.messages, grown.session.messages))

    encoded.clear()
    cut = written(with_messages(grown.session, grown.session.messages[:2], now=NOW), grown)
    moved = written(with_metadata(cut.session, now=NOW, model="other"), cut)
    assert encoded == []
    assert [message.content for message in decode(moved.data, SESSION_ID).messages] == [
        "one",
        "two",
    ]


def test_equal_is_not_the_same(make_session: MakeSession) -> None:
    """``1 == True``, but they are not the same JSON."""

    def call(value: object) -> Message:
        calls = (ToolCall(id="1", name="f", arguments={"value": value}),)
        return AssistantMessage(content="", message_id="c", timestamp=NOW, tool_calls=calls)

    file = written(with_messages(make_session(), [call(1)], now=NOW))
    assert call(1) == call(True)
    changed = with_messages(file.session, [call(True)], now=NOW)
    assert b'"value": true' in written(changed, file).data


def test_what_is_kept_is_what_would_be_read_not_what_was_given(make_session: MakeSession) -> None:
    arguments = {"tuple": (1, 2), "nan": float("nan")}
    calls = (ToolCall(id="1", name="f", arguments=arguments),)
    odd = AssistantMessage(content="", message_id="c", timestamp="2025-01-15", tool_calls=calls)
    file = written(append_messages(make_session(), odd, now=NOW))
    arguments["changed"] = 1
    (kept,) = file.session.messages
    assert isinstance(kept, AssistantMessage)
    assert kept.tool_calls[0].arguments == {"tuple": [1, 2], "nan": None}
    assert kept.timestamp != odd.timestamp


@pytest.mark.parametrize("extra", [{"x": 2**70}, {"messages": []}, {"metadata": {}}])
def test_what_can_not_be_put_together_is_written_at_once(
    make_session: MakeSession, extra: dict[str, Any]
) -> None:
    session = msgspec.structs.replace(make_session("Hello"), extra=extra)
    assert b"".join(rewrite(session).pieces()) == encode(session)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "PIECE", 300)
    monkeypatch.setattr("sessions_app.format.rewriting.PIECE", 300)
    monkeypatch.setattr("sessions_app.format.json_pieces.PIECE_BYTES", 300)


def test_a_large_session_is_read_and_written_in_pieces(
    make_session: MakeSession, small_pieces: None
) -> None:
    session = make_session(*(f"text {number}" for number in range(50)))
    new = rewrite(session)
    pieces = list(new.pieces())
    assert b"".join(pieces) == encode(session)
    grown = rewrite(append_messages(session, say("more"), now=NOW))
    assert len(list(grown.pieces())) > 1
    data = encode(session)
    place = layout.find_messages(data)
    assert place is not None
    read = list(layout.pieces_of(data, *place))
    assert len(read) > 10
    assert b",".join(read) == data[slice(*place)]
    assert decode(data, SESSION_ID) == session


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("    },\n    {", "    }\n    {", 1),
        lambda text: text.replace("    },\n    {", "    },,\n    {", 1),
        lambda text: text.replace('"role": "user"', '"role": "oracle"', 1),
        lambda text: text.replace('"content"', '"content": 1, "content"', 1),
        lambda text: text.replace('  "messages": [', '  "messages": [], "messages": [', 1),
        lambda text: text.replace("\n  ]\n}\n", '\n  ],\n  "messages": []\n}\n'),
        lambda text: text.replace("\n  ]\n}\n", '\n  ],\n  "metadata": {}\n}\n'),
        lambda text: text.replace("\n  ]\n}\n", "\n  ]\n}\n}\n"),
        lambda text: text.replace("\n  ]\n}\n", "\n  ]\n"),
        lambda text: text.replace('"content": "text 3', '"content": "\ntext 3'),
        lambda text: text.replace("text 30", "\\ud800"),
        lambda text: text.replace("text 40", "text\n    },\n    {"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: f'{{"x": {text.rstrip()}}}',
    ],
)
def test_pieces_never_change_what_a_file_says(
    make_session: MakeSession, small_pieces: None, damage: Callable[[str], str]
) -> None:
    session = make_session(*(f"text {number}" for number in range(50)))
    data = damage(encode(session).decode()).encode()
    try:
        whole = json.loads(data)
        expected: object = encode(decode(json.dumps(whole).encode(), SESSION_ID))
    except ValueError:
        expected = None
    except Exception as error:
        expected = type(error)
    try:
        found: object = encode(decode(data, SESSION_ID))
    except Exception as error:
        found = type(error)
    assert found == expected or (expected is None and isinstance(found, type))
