"""Messages as values."""

import gc
from typing import get_args

import pytest

from sessions_app.messages import Message, ToolCall


@pytest.mark.parametrize("kind", get_args(Message))
def test_the_garbage_collector_does_not_watch_messages(kind: type) -> None:
    message = kind(content="x", message_id="0123456789", timestamp="", extra={"a": [1]})
    assert not gc.is_tracked(message)


def test_the_garbage_collector_does_not_watch_calls() -> None:
    assert not gc.is_tracked(ToolCall(id="c", name="add", arguments={"a": [1]}))
