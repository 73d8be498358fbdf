"""Long sessions of which only the ends are read: what is not read is what it was."""

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sessions_app.errors import SessionCorrupt
from sessions_app.format import layout, unread
from sessions_app.format.codec import decode, encode
from sessions_app.format.ends import FileEnds, UnchangedRange
from sessions_app.format.rewriting import Rewrite, SessionFile, rewrite
from sessions_app.messages import Attachment, Message, UserMessage
from sessions_app.partly_read import PartlyRead, followed_by
from sessions_app.session import Session, append_messages, counted, with_messages, with_metadata
from tests.unit.sessions_app.format.sessions import messages as any_message
from tests.unit.sessions_app.format.sessions import sessions
from tests.unit.sessions_app.left_out import NOW, leaving_out

SESSION_ID = "a1b2c3d4e5"

MakeSession = Callable[..., Session]


def say(text: str) -> Message:
    return UserMessage(content=text, message_id=text, timestamp=NOW)


@pytest.fixture(autouse=True)
def short_sessions_count_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "LEAST_TEXT", 1)
    monkeypatch.setattr(unread, "TAIL", 2)
    monkeypatch.setattr(layout, "PIECE", 300)


def noted(data: bytes) -> bytes:
    """Return a file as it is written again by the next turn."""
    file = SessionFile.of(data, SESSION_ID, partly=True)
    return b"".join(rewrite(file.noting(file.session), file).pieces())


def is_partly_read(data: bytes) -> bool:
    return isinstance(SessionFile.of(data, SESSION_ID, partly=True).session.messages, PartlyRead)


@pytest.fixture
def long(make_session: MakeSession) -> bytes:
    """The file of a session of fifty messages, of which 40 are left out, with the note of that."""
    session = make_session(*(f"text {at}" for at in range(50)))
    session = leaving_out(session, session.messages[1:41], summary="what was said")
    data = noted(encode(session))
    assert is_partly_read(data)
    return data


def reformatted(session: Session) -> bytes:
    """Return a file that begins and ends like ours, with a message in every line."""
    head, opening, rest = encode(session).partition(b'"messages": [\n')
    lines = ",\n".join(json.dumps(message) for message in json.loads(encode(session))["messages"])
    return head + opening + lines.encode() + rest[rest.rindex(b"\n  ]") :]


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sessions, st.lists(any_message, min_size=8, max_size=12), st.data())
def test_what_is_read_partly_is_what_is_read_whole(
    session: Session, said: list[Message], data: st.DataObject
) -> None:
    said = [
        msgspec.structs.replace(message, message_id=f"{at}{message.message_id}")
        for at, message in enumerate(said)
    ]
    start = data.draw(st.integers(min_value=0, max_value=2))
    stop = data.draw(st.integers(min_value=5, max_value=len(said) - 1))
    session = with_messages(session, [say("first"), *said], now=NOW)
    session = leaving_out(session, session.messages[start:stop], summary="what was said")
    is_ours = data.draw(st.booleans())
    written = noted(encode(session) if is_ours else reformatted(session))
    whole = decode(written, SESSION_ID)
    file = SessionFile.of(written, SESSION_ID, partly=True)
    assert counted(file.session) == file.session
    assert file.session.metadata.message_count == len(file.session.messages)
    assert file.session.messages[-2:] == whole.messages[-2:]
    if isinstance(file.session.messages, PartlyRead):
        assert file.session.metadata == whole.metadata
        more = append_messages(file.session, say("more"), now=NOW)
        again = b"".join(rewrite(more, file).pieces())
        assert again == encode(append_messages(whole, say("more"), now=NOW)) or not is_ours
        assert decode(again, SESSION_ID).messages == (*whole.messages, say("more"))
    assert file.session.messages == whole.messages
    assert file.whole().session.messages == whole.messages
    let_go = SessionFile.of(written, SESSION_ID).partly().session
    assert let_go == file.session
    assert isinstance(let_go.messages, PartlyRead) == isinstance(file.session.messages, PartlyRead)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_file_that_was_changed_beside_the_server_is_read_as_ever(
    long: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(min_value=long.index(b'"messages"'), max_value=len(long) - 1))
    gone = data.draw(st.integers(min_value=0, max_value=3))
    put = data.draw(st.binary(max_size=3) | st.sampled_from([b" ", b"\n", b"}", b",", b"text"]))
    changed = long[:at] + put + long[at + gone :]
    assume(changed != long)

    def found(*, partly: bool) -> object:
        try:
            return SessionFile.of(changed, SESSION_ID, partly=partly).whole().session.messages
        except SessionCorrupt as error:
            return error.reason

    assert found(partly=True) == found(partly=False)


def filled_in(new: Rewrite, before: bytes) -> bytes:
    """Return a file that is written, with what stays of the file before."""
    return b"".join(
        before[part.start : part.start + part.length]
        if isinstance(part, UnchangedRange)
        else bytes(part)
        for part in new.parts
    )


Turn = tuple[str, int]
turns = st.lists(
    st.tuples(st.sampled_from(["say", "rename", "drop the last", "regenerate"]), st.integers(0, 99))
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns)
def test_a_file_of_which_the_ends_are_kept_is_written_as_one_that_is_kept_whole(
    long: bytes, done: list[Turn]
) -> None:
    file, data = SessionFile.of(long, SESSION_ID, partly=True), long
    for what, number in done:
        session = file.session
        match what:
            case "say":
                changed = append_messages(session, say(f"more {number}"), now=NOW)
            case "rename":
                changed = with_metadata(session, now=NOW, title="T" * number)
            case "drop the last":
                changed = with_messages(session, session.messages[:-1], now=NOW)
            case _:
                said = [*session.messages[-2:-1], say(f"again {number}")]
                first = session.messages[:-2]
                changed = with_messages(session, followed_by(first, said), now=NOW)
        new = rewrite(counted(changed), file)
        data = filled_in(new, data)
        assert len(data) == new.size
        kept = new.ends()
        if kept is None:
            file = SessionFile.of(data, SESSION_ID, partly=True)
            continue
        assert isinstance(kept.data, FileEnds)
        assert len(kept.data) == len(data)
        assert kept.data.held < len(data)
        read = kept.read(SESSION_ID)
        assert read is not None
        file = read
        if isinstance(file.session.messages, PartlyRead):
            file.session.messages.unread.leave_to(lambda data=data: data)
        assert file.session == decode(data, SESSION_ID)
        assert data == encode(file.session)


def test_ends_give_no_bytes_that_stand_between_them() -> None:
    ends = FileEnds(b"front", 10, b"back")
    assert (len(ends), ends.held, ends[:3], ends[15:17]) == (19, 9, b"fro", b"ba")
    for between in (slice(3, 6), slice(6, 8), slice(7, 19)):
        with pytest.raises(IndexError):
            ends[between]


def test_what_was_left_in_the_file_is_not_taken_from_another_file(long: bytes) -> None:
    messages = SessionFile.of(long, SESSION_ID, partly=True).session.messages
    assert isinstance(messages, PartlyRead)
    for other in (long.replace(b'"text 20"', b'"text XX"'), b"{}"):
        messages.unread.leave_to(lambda other=other: other)
        with pytest.raises(SessionCorrupt, match="another program changed it"):
            messages.whole()
    messages.unread.leave_to(lambda: long)
    assert messages.whole() == decode(long, SESSION_ID).messages


def test_a_note_that_does_not_hold_is_made_anew(long: bytes) -> None:
    edited = long.replace(b'"text 20"', b'"text twenty"')
    file = SessionFile.of(edited, SESSION_ID, partly=True)
    state = file.session.metadata.context_state
    assert state is not None
    assert state.text is None
    assert not isinstance(file.session.messages, PartlyRead)
    valid = leaving_out(file.session, file.session.messages[1:41])
    assert is_partly_read(noted(encode(valid)))


def test_what_follows_is_appended_without_reading_what_is_left_out(
    long: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise AssertionError("the middle was read")

    monkeypatch.setattr("sessions_app.partly_read.Unread.messages", fail)
    file = SessionFile.of(long, SESSION_ID, partly=True)
    for turn in range(3):
        more = append_messages(file.session, say(f"question {turn}"), say(f"a {turn}"), now=NOW)
        new = rewrite(file.noting(counted(more)), file)
        data = b"".join(new.pieces())
        assert new.continues(file)
        kept = new.written(data)
        assert kept is not None
        read = kept.read(SESSION_ID)
        assert read is not None
        file = read
        assert is_partly_read(data)
    monkeypatch.undo()
    assert [message.content for message in decode(file.data, SESSION_ID).messages[-2:]] == [
        "question 2",
        "a 2",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": True},
        {"attachments": (Attachment(id="sha256:0", name="a", media_type="image/png", size=1),)},
    ],
)
def test_a_session_is_read_whole_where_something_counts_in_what_is_left_out(
    make_session: MakeSession, changes: dict[str, object]
) -> None:
    session = make_session(*(f"text {at}" for at in range(50)))
    changed = list(session.messages)
    changed[20] = msgspec.structs.replace(changed[20], **changes)
    seen = [message for message in changed if not message.hidden]
    session = with_messages(session, changed, now=NOW)
    session = leaving_out(session, seen[1:31])
    assert not is_partly_read(noted(encode(session)))


def test_a_session_with_hidden_messages_elsewhere_is_read_partly(
    make_session: MakeSession,
) -> None:
    session = make_session(*(f"text {at}" for at in range(50)))
    changed = list(session.messages)
    changed[0] = msgspec.structs.replace(changed[0], hidden=True)
    changed[48] = msgspec.structs.replace(changed[48], hidden=True)
    session = leaving_out(with_messages(session, changed, now=NOW), changed[1:41])
    assert is_partly_read(noted(encode(session)))


@pytest.mark.parametrize(
    "state",
    [{"digest": "other"}, {"count": 39}, {"last_id": "x"}, {"first_id": "x"}, {"count": 49}],
)
def test_nothing_is_noted_for_a_state_that_does_not_hold(
    make_session: MakeSession, state: dict[str, object]
) -> None:
    session = make_session(*(f"text {at}" for at in range(50)))
    session = leaving_out(session, session.messages[1:41])
    void = msgspec.structs.replace(session.metadata.context_state, **state)
    session = with_metadata(session, now=NOW, context_state=void)
    assert not is_partly_read(noted(encode(session)))


@pytest.mark.parametrize(
    "text",
    [
        {"messages": [5, 2]},
        {"messages": [3, 30]},
        {"commas": [10, 20]},
        {"commas": [-4, 2000]},
        {"length": 10**9},
        {"sha256": 1},
        {"newer": "key"},
    ],
)
def test_a_note_of_others_spoils_nothing(long: bytes, text: dict[str, object]) -> None:
    raw = json.loads(long)
    raw["metadata"]["context_state"]["text"] |= text
    body = long[long.index(b'\n  "messages"') + 1 :]
    head = json.dumps({"metadata": raw["metadata"]}, indent=2).encode()[:-2]
    forged = head + b",\n" + body
    whole = decode(forged, SESSION_ID)
    assert whole.metadata.context_state is not None
    assert whole.metadata.context_state.summary == "what was said"
    try:
        found = tuple(SessionFile.of(forged, SESSION_ID, partly=True).session.messages)
    except SessionCorrupt:
        return  # it says that other messages stand there than do
    assert found == whole.messages
