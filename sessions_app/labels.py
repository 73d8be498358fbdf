"""Changes labels of sessions, by which lists show and filter them. Pure.

Labels (titles, pins, clients' metadata) are not sent to the model and do not change ``updated_at``,
which orders the list. ``labels_changed_at`` has the time, which counts for the retention.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from sessions_app.errors import ValidationFailed
from sessions_app.messages import title_of
from sessions_app.session import Session, SessionMetadata, with_metadata
from sessions_app.text_rules import require_text

LABELS = ("title", "titled_by", "metadata", "pinned", "archived")
"""The fields of a session's metadata that are labels."""
TITLE_LENGTH = 200
METADATA_KEYS = 16
METADATA_BYTES = 4096
_FLAGS = ("pinned", "archived")


def changed_labels(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Validate given labels and return them as fields of a session's metadata."""
    labels: dict[str, Any] = {key: changes[key] or None for key in _FLAGS if key in changes}
    if "title" in changes:
        title = changes["title"]
        labels["title"] = None if title is None else title_of_person(title)
        labels["titled_by"] = None if title is None else "person"
    if "metadata" in changes:
        labels["metadata"] = checked_metadata(changes["metadata"] or None)
    return labels


def with_labels(session: Session, **labels: Any) -> Session:
    """Return the session with these labels; ``updated_at`` does not change."""
    return with_metadata(session, now=session.metadata.updated_at, **labels)


def titled_by_message(session: Session) -> Session:
    """Return the session with the beginning of its first message as its title, if it has none."""
    if session.metadata.title is not None or (title := title_of(session.metadata.preview)) is None:
        return session
    return with_labels(session, title=title, titled_by="message")


def wants_title(metadata: SessionMetadata) -> bool:
    """Return whether a model may title the session: its title is none or its first words."""
    return metadata.title is None or metadata.titled_by == "message"


def labels_of(title: str | None, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the given labels of a new session.

    Raises:
        ValidationFailed: They are too long, or not valid JSON.
    """
    labels = {"title": title, "metadata": metadata}
    return changed_labels({name: value for name, value in labels.items() if value is not None})


def title_of_person(title: str) -> str:
    """Return a title given by a person, as one line.

    Raises:
        ValidationFailed: It is blank, or longer than ``TITLE_LENGTH``.
    """
    line = " ".join(title.split())
    require_text(line, field="title")
    if len(line) > TITLE_LENGTH:
        raise ValidationFailed(
            f"title must have at most {TITLE_LENGTH} characters; this one has {len(line)}.",
            field="title",
        )
    return line


def checked_metadata(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Validate the metadata that a client stores with a session.

    Raises:
        ValidationFailed: There are too many keys or bytes, or they are not valid JSON.
    """
    if metadata is None:
        return None
    if len(metadata) > METADATA_KEYS:
        raise ValidationFailed(
            f"metadata must have at most {METADATA_KEYS} keys; this has {len(metadata)}.",
            field="metadata",
        )
    try:
        size = len(msgspec.json.encode(metadata))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationFailed(f"metadata must be JSON: {error}.", field="metadata") from error
    if size > METADATA_BYTES:
        raise ValidationFailed(
            f"metadata must have at most {METADATA_BYTES:,} bytes of JSON; this has {size:,}.",
            field="metadata",
        )
    return metadata
