"""Records which messages and attachments are not sent to the model any more. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from sessions_app.decoding import convert_to
from sessions_app.messages import NO_EXTRA, Message


class ReadText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of the messages that are left out, as it was read in a session's file.

    As long as the file holds it, some of it need not be decoded (docs/decisions/0098). Places are
    counted from where the text of the first message begins.

    Attributes:
        length: Bytes of the text up to the end of the last message that is left out.
        sha256: Their digest, hexadecimal.
        messages: Which of the messages need not be decoded: the first, and the one behind the last.
        commas: Where the commas before and behind those stand.
    """

    length: int
    sha256: str
    messages: tuple[int, int]
    commas: tuple[int, int]


class ContextState(msgspec.Struct, frozen=True, kw_only=True):
    """A span of messages, and images, that requests leave out; the session keeps them.

    Attributes:
        strategy: The strategy that dropped them; another one starts afresh.
        first_id: The message id of the first dropped message.
        last_id: The message id of the last one.
        count: How many there are; 0 where attachments alone are left out.
        digest: Of these messages (``digest_of``): when one of them changes, the state is void.
        created_at: When they were dropped (UTC, ISO 8601).
        summary: Is sent to the model in their place; None sends nothing.
        model: The model that wrote the summary.
        files_until: The message id of the last message whose images and PDFs are left out, as are
            those of all messages before it; None leaves out none.
        text: What is known of the text of these messages; None where they are to be read.
        extra: Unknown keys of the file, kept for the next write.
    """

    strategy: str
    first_id: str
    last_id: str
    count: int
    digest: str
    created_at: str
    summary: str | None = None
    model: str | None = None
    files_until: str | None = None
    text: ReadText | None = None
    extra: Mapping[str, Any] = NO_EXTRA


def digest_of(messages: Sequence[Message]) -> str:
    """Return a digest of ids, times and lengths, to detect edited, added and removed messages."""
    text = "\n".join([f"{m.message_id}|{m.timestamp}|{len(m.content)}" for m in messages])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def tells_of(state: ContextState, messages: Sequence[Message], places: range) -> bool:
    """Return whether a message at one of the places is among those that the state leaves out."""
    first = next((at for at, m in enumerate(messages) if m.message_id == state.first_id), None)
    return first is not None and first < places.stop and places.start < first + state.count


def context_state_to_json(state: ContextState) -> dict[str, Any]:
    """Return the state as it stands in a file."""
    document: dict[str, Any] = {
        "strategy": state.strategy,
        "first_id": state.first_id,
        "last_id": state.last_id,
        "count": state.count,
        "digest": state.digest,
        "created_at": state.created_at,
        "summary": state.summary,
        "model": state.model,
    }
    if state.files_until is not None:
        document["files_until"] = state.files_until
    if state.text is not None:
        document["text"] = msgspec.to_builtins(state.text)
    return {**document, **state.extra}


def context_state_from_json(raw: dict[str, Any] | None) -> ContextState | None:
    """Return the state that a file holds; None where it makes no sense: it can be made anew."""
    if raw is None:
        return None
    known = {name: raw[name] for name in ContextState.__struct_fields__[:-1] if name in raw}
    extra = {name: value for name, value in raw.items() if name not in known}
    with suppress(msgspec.ValidationError):  # else it is found out again
        known["text"] = convert_to(known.pop("text", None), ReadText)
    try:
        state = convert_to(known, ContextState)
    except msgspec.ValidationError:
        return None
    return msgspec.structs.replace(state, extra=extra or NO_EXTRA)
