"""What an agent does, as data that is sent again and again."""

from dialects_app.ai_sdk.agent_data import AgentData


def test_what_is_sent_of_a_long_text_stays_a_few_times_its_length() -> None:
    data, sent = AgentData("clerk"), 0
    for _ in range(10_000):
        if data.say("word "):
            sent += len(data.value()["text"])
    assert 0 < sent < 8 * 50_000


def test_a_call_that_was_asked_about_ends_without_a_beginning() -> None:
    data = AgentData("clerk")
    data.end_call("inner_0", "add", "3", succeeded=False)
    assert data.value()["calls"] == [
        {"id": "inner_0", "tool": "add", "state": "failed", "summary": "3"}
    ]
