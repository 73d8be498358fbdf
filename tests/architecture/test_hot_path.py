"""What every token passes through keeps little in memory (docs/decisions/0091)."""

import pytest

from chat.http.event_stream import EventStreamBody
from chat.http.projector import UnchangedEvents
from chat.storage.files.journal_file import FileJournalWriter
from chat.stream.heartbeat import Heartbeat
from chat.stream.numbered_event import NumberedEvent
from chat.stream.subscription import Subscription
from chat.stream.turn_stream import TurnStream
from chat.turn.model_answer import ModelAnswer
from chat.turn.model_caller import AnswerSink
from mochi_project.exchange import Exchange
from models_app.cleaning import StreamCleaner
from models_app.ollama.http_connection import HttpConnection
from models_app.ollama.replies import ReplyParser

PASSED_BY_TOKENS = (
    HttpConnection,
    ReplyParser,
    StreamCleaner,
    ModelAnswer,
    AnswerSink,
    TurnStream,
    FileJournalWriter,
    NumberedEvent,
    Subscription,
    Heartbeat,
    EventStreamBody,
    UnchangedEvents,
    Exchange,
)


@pytest.mark.parametrize("kind", PASSED_BY_TOKENS)
def test_objects_that_tokens_pass_through_have_no_dictionary(kind):
    assert kind.__dictoffset__ == 0
