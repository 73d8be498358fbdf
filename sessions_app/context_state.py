"""Records which messages and attachments are no longer sent to the model. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sessions_app.decoding import convert_to
from sessions_app.messages import NO_EXTRA, Message, shown


class ContextState(msgspec.Struct, frozen=True, kw_only=True):
    """A span of messages, and attachments, that requests leave out; the session keeps them.

    Attributes:
        strategy: The strategy that dropped them; another strategy starts over.
        first_id: The id of the first dropped message.
        last_id: The id of the last dropped message.
        count: The number of dropped messages; 0 if only attachments are left out.
        digest: The ``digest_of`` these messages: if one of them changes, the state is void.
        created_at: When they were dropped (UTC, ISO 8601).
        summary: The summary sent to the model instead; None sends nothing.
        model: The model that wrote the summary.
        files_until: The id of the last message whose images and PDFs are left out, together with
            those of all earlier messages; None leaves out none.
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
    extra: Mapping[str, Any] = NO_EXTRA


def digest_of(messages: Sequence[Message]) -> str:
    """Return a digest of ids, times and lengths, to detect edited, added and removed messages."""
    text = "\n".join([f"{m.message_id}|{m.timestamp}|{len(m.content)}" for m in messages])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def tells_of(state: ContextState, messages: Sequence[Message], places: range) -> bool:
    """Return whether the state leaves out any message at these indexes."""
    first = next((at for at, m in enumerate(messages) if m.message_id == state.first_id), None)
    return first is not None and first < places.stop and places.start < first + state.count


def left_out(state: ContextState | None, messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages of a session that its state leaves out; none if it does not hold."""
    if state is None or not state.count:
        return ()
    sent = shown(messages)
    first = next((at for at, m in enumerate(sent) if m.message_id == state.first_id), 0)
    span = sent[first : first + state.count]
    return span if digest_of(span) == state.digest else ()


def context_state_to_json(state: ContextState) -> dict[str, Any]:
    """Convert the state to its JSON value in files."""
    fields = msgspec.structs.asdict(state)
    if state.files_until is None:
        del fields["files_until"]
    extra = fields.pop("extra")
    return {**fields, **extra}


def context_state_from_json(raw: dict[str, Any] | None) -> ContextState | None:
    """Convert a state from its JSON value; return None if it is invalid, as it can be remade."""
    if raw is None:
        return None
    known = {name: raw[name] for name in ContextState.__struct_fields__[:-1] if name in raw}
    # Earlier releases noted in ``text`` where the messages stand in the file.
    extra = {name: value for name, value in raw.items() if name not in known and name != "text"}
    try:
        state = convert_to(known, ContextState)
    except msgspec.ValidationError:
        return None
    return msgspec.structs.replace(state, extra=extra or NO_EXTRA)
