"""Metadata are read at once as they are read field by field."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.format import metadata as stored_metadata
from sessions_app.format.codec import to_json
from sessions_app.format.to_json import metadata_to_json
from sessions_app.session import (
    SessionMetadata,
)
from tests.unit.sessions_app.format.sessions import (
    ANY_JSON,
    METADATA_KEYS,
    NOW,
    SESSION_ID,
    metadatas,
    outcome,
)


@given(
    metadata=st.dictionaries(st.sampled_from(METADATA_KEYS), ANY_JSON),
    version=st.sampled_from(["1.3", "1.2", "2.0"]),
)
def test_checking_metadata_at_once_finds_what_reading_field_by_field_finds(
    metadata: dict[str, Any], version: str
) -> None:
    known = {"session_id": "x", "model": "m", "created_at": NOW, "updated_at": NOW}
    raw = {**known, "message_count": 0, "format_version": version, **metadata}
    expected = outcome(lambda: stored_metadata.read_fields(copy.deepcopy(raw), SESSION_ID))
    assert outcome(lambda: stored_metadata.read_metadata(raw, SESSION_ID)) == expected


@given(metadatas)
def test_metadata_as_we_write_them_are_read_the_same_in_both_ways(
    metadata: SessionMetadata,
) -> None:
    raw = msgspec.json.decode(to_json(metadata_to_json(metadata)))
    expected = stored_metadata.read_fields(copy.deepcopy(raw), SESSION_ID)
    assert stored_metadata.read_metadata(raw, SESSION_ID) == expected


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
