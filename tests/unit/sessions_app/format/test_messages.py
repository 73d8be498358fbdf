"""Messages are read at once as they are read one by one."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.format import messages as stored_messages
from sessions_app.format.to_json import message_to_json
from sessions_app.messages import (
    Message,
)
from tests.unit.sessions_app.format.sessions import (
    ANY_JSON,
    MESSAGE_KEYS,
    NOW,
    SESSION_ID,
    messages,
    outcome,
)


@given(
    st.lists(
        st.tuples(messages, st.dictionaries(st.sampled_from(MESSAGE_KEYS), ANY_JSON, max_size=1)),
        max_size=3,
    )
)
def test_messages_are_read_the_same_in_both_ways(
    found: list[tuple[Message, dict[str, Any]]],
) -> None:
    raw = [{**message_to_json(message), **odd} for message, odd in found]
    data = msgspec.json.encode(raw, enc_hook=dict)
    raw = msgspec.json.decode(data)

    def read() -> object:
        return stored_messages.read_messages(
            data[1:-1], first=5, session_id=SESSION_ID, created_at=NOW
        ).messages

    def read_each() -> object:
        return [
            stored_messages.read_message(one, index, SESSION_ID, NOW)
            for index, one in enumerate(raw, 5)
        ]

    expected = outcome(read_each)
    if not isinstance(expected, str):
        assert outcome(read) == expected
    else:
        assert isinstance(outcome(read), str)
