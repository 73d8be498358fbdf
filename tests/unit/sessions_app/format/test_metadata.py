"""Metadata are read as they were written, and unknown values stay."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from sessions_app.format import metadata as stored_metadata
from sessions_app.format.codec import to_json
from sessions_app.format.to_json import metadata_to_json
from sessions_app.session import (
    SessionMetadata,
)
from tests.unit.sessions_app.format.sessions import (
    NOW,
    SESSION_ID,
    metadatas,
)


@given(metadatas)
def test_metadata_are_read_as_they_were_written(metadata: SessionMetadata) -> None:
    raw = msgspec.json.decode(to_json(metadata_to_json(metadata)))
    read = stored_metadata.read_metadata(raw, SESSION_ID)
    assert to_json(metadata_to_json(read)) == to_json(metadata_to_json(metadata))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("title", 5), ("titled_by", []), ("metadata", "none"), ("pinned", "yes")),
        *(("archived", 1), ("imported_from", "elsewhere"), ("client_id", 7)),
    ],
)
def test_labels_of_another_program_stay_until_ours_take_their_place(key: str, value: Any) -> None:
    plain = SessionMetadata(session_id=SESSION_ID, model="m", created_at=NOW, updated_at=NOW)
    raw = {**metadata_to_json(plain), key: value}
    metadata = stored_metadata.read_metadata(raw, SESSION_ID)
    assert getattr(metadata, key) is None
    assert metadata_to_json(metadata)[key] == value
    ours = msgspec.structs.replace(
        metadata,
        title="Ours",
        titled_by="person",
        metadata={},
        pinned=True,
        archived=True,
        imported_from={"source": "claude", "id": "1"},
        client_id="thread-1",
    )
    assert metadata_to_json(ours)[key] == getattr(ours, key)
