"""Finds the session that holds the history which a client resends, or where the two part.

A client that edits a message, or has an answer made again, resends what is left of its history. The
session's later messages are then those of another branch (docs/decisions/0128).
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dialects_app.chat_completions.body import MessageIn
from sessions_app.errors import SessionNotFound
from sessions_app.ids_and_clock import ID_LENGTH, new_session_id
from sessions_app.messages import AssistantMessage, Message, unmark_cancelled
from sessions_app.service import SessionManager
from sessions_app.session import Session

MOST_BRANCHES = 64
"""Sessions of one chat that are looked at; a later branch is not found again."""


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """The session of a request.

    Attributes:
        session_id: Its id.
        exists: Whether there is such a session, which holds the history.
        copied: The session to copy for it; None begins an empty one, unless it exists.
        length: The number of messages to copy.
        first: The first message of the request that is not among these.
    """

    session_id: str
    exists: bool = False
    copied: Session | None = None
    length: int = 0
    first: int = 0


class _Exchange(msgspec.Struct, frozen=True):
    """A question and its answer, None without one; ``end`` is the index after its last message.

    Results of calls that no message of the assistant follows are no part of it: they are new.
    """

    asked: str
    answered: str | None
    end: int


def session_of_chat(chat_id: str, model: str, place: int = 0) -> str:
    """Return the id of the session for another program's chat with a model, or for a branch of it.

    Open WebUI lets several models answer a chat at once, while a session has one model.
    """
    text = f"{chat_id}\n{model}\n{place}" if place else f"{chat_id}\n{model}"
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def branch_of_chat(
    sessions: SessionManager, chat_id: str, model: str, messages: Sequence[MessageIn]
) -> Branch:
    """Return the session of another program's chat that holds its history. Blocks.

    If there is none, it is to be a copy of the one that has most of it.
    """
    best = Branch(session_id="")
    for place in range(MOST_BRANCHES):
        session_id = session_of_chat(chat_id, model, place)
        try:
            session = sessions.get(session_id)
        except SessionNotFound:
            return msgspec.structs.replace(best, session_id=session_id)
        branch = branch_from(session, messages)
        if branch.exists:
            return branch
        best = max(best, branch, key=lambda each: each.length)
    return msgspec.structs.replace(best, session_id=new_session_id())


def branch_from(session: Session, messages: Sequence[MessageIn]) -> Branch:
    """Return the session itself if it ends where the resent history does, else a copy to make.

    Args:
        session: The session.
        messages: The client's history, and what follows it.
    """
    ours = list(_exchanges((each.role, _saved_text(each)) for each in session.messages))
    theirs = list(_exchanges((each.role, _text(each)) for each in messages))
    shared = 0
    for our, their in zip(ours, theirs, strict=False):
        # A client may have inserted documents into its message when it was sent.
        if our.answered is None or our.answered != their.answered or their.asked not in our.asked:
            break
        shared += 1
    our_rest, their_rest = ours[shared:], theirs[shared:]
    unanswered = [each.asked for each in our_rest]
    if all(each.answered is None for each in our_rest + their_rest) and (
        not unanswered or unanswered == [each.asked for each in their_rest]
    ):
        return Branch(session_id=session.session_id, exists=True)
    if not shared:
        return Branch(session_id=new_session_id())
    return Branch(
        session_id=new_session_id(),
        copied=session,
        length=ours[shared - 1].end,
        first=theirs[shared - 1].end,
    )


def _exchanges(messages: Iterable[tuple[str, str]]) -> Iterator[_Exchange]:
    """Group messages, each a role and a text: the user's, and all answers until its next one."""
    asked: list[str] = []
    answered: list[str] = []
    end = 0
    for index, (role, text) in enumerate(messages, 1):
        if role == "user" and end:
            yield _Exchange(_joined(asked), _joined(answered), end)
            asked, answered, end = [], [], 0
        if role == "user":
            asked.append(text)
        elif role == "assistant":
            answered.append(text)
            end = index
    if asked or end:
        yield _Exchange(_joined(asked), _joined(answered) if end else None, end)


def _saved_text(message: Message) -> str:
    is_answer = isinstance(message, AssistantMessage)
    return unmark_cancelled(message.content) if is_answer else message.content


def _text(message: MessageIn) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    return "\n\n".join(part.text for part in content if part.text)


def _joined(texts: Sequence[str]) -> str:
    return " ".join(word for text in texts for word in text.split())
