"""The projectors of all protocols follow a turn in the same way."""

from chat.stream.events import (
    Cancelled,
    ContentDelta,
    Done,
    Failed,
    StatusChanged,
    ToolContinuationStarted,
    TurnStarted,
    TurnUsage,
)
from dialects_app.shared.turn_fold import TurnFold
from tests.unit.dialects_app.turns import numbered

TURN = "0199f3a2b4c51f2e3d4c"
STARTED = TurnStarted(turn_id=TURN, session_id="s", model="m", message_id="a1")


class Followed(TurnFold):
    """Notes the pieces of text that it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def _on_content_delta(self, delta: ContentDelta) -> None:
        self.texts.append(delta.content)


def followed(*events):
    fold = Followed()
    for event in numbered(events):
        fold.follow(event)
    return fold


def test_a_turn_has_a_model_and_names_its_next_answer():
    fold = followed(STARTED)
    assert (fold.turn_id, fold.model, fold.message_id) == (TURN, "m", "a1")
    assert followed(STARTED, ToolContinuationStarted(message_id="a2")).message_id == "a2"


def test_answers_that_a_journal_does_not_name_have_names_of_their_turn():
    unnamed = TurnStarted(turn_id=TURN, session_id="s", model="m")
    assert followed(unnamed).message_id == f"{TURN}0"
    assert followed(unnamed, ToolContinuationStarted()).message_id == f"{TURN}1"


def test_the_event_that_ended_a_turn_is_kept():
    failed = Failed(code="NETWORK_ERROR", message="gone", details={"retryable": True})
    assert followed(STARTED, failed).ending == failed
    assert followed(STARTED).ending is None


def test_the_usage_is_that_of_the_ending_or_else_of_the_last_event():
    usage = TurnUsage(input_tokens=3, output_tokens=4)
    cancelled = Cancelled(content="", thinking=None, model="m", message_id="a1", turn_usage=usage)
    assert followed(STARTED, cancelled).usage_at(Done(session_id="s")) == usage
    assert followed(STARTED).usage_at(Done(session_id="s", turn_usage=usage)) == usage


def test_only_events_that_are_shown_are_taken():
    status = StatusChanged(state="waiting_for_tool")
    fold = followed(STARTED, ContentDelta(content="a"), status)
    fold.take(ContentDelta(content="b"))
    fold.take(status)
    assert fold.texts == ["a", "b"]
