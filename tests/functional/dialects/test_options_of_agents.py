"""What a request asks of an agent's sampling reaches the agent's own model."""

import openai
import pytest

from mochi_server.testing import MODEL, Reply, ToolCall
from tests.functional.dialects.responding import OURS, furnish

AGENT = "agent:clerk"
SAID = [{"role": "user", "content": "Take a note."}]


@pytest.fixture(scope="module")
def shared(serve_once):
    return furnish(serve_once(MOCHI_DEFAULT_MODEL=MODEL))


@pytest.fixture
def server(shared):
    shared.reset()
    shared.script("1. Note it.", "I begin.", "Noted.")
    return shared


@pytest.fixture
def client(shared, connect):
    return connect(shared)


def sent(server, *names):
    """Return these options of the requests that the model got, the plan's first."""
    return [{name: each["options"].get(name) for name in names} for each in server.model_requests]


def test_a_chat_completion_s_options_reach_the_agent_s_model(server, client):
    answer = client.chat.completions.create(
        model=AGENT,
        messages=SAID,
        temperature=0.25,
        top_p=0.5,
        seed=7,
        stop=["END"],
        max_completion_tokens=99,
    )
    assert answer.choices[0].message.content == "I begin.\n\nNoted."
    wanted = {"temperature": 0.25, "top_p": 0.5, "seed": 7, "num_predict": 99}
    assert sent(server, *wanted) == [wanted] * 3
    assert sent(server, "stop") == [{"stop": None}, {"stop": ["END"]}, {"stop": ["END"]}]


def test_a_response_s_options_reach_the_agent_s_model_and_hold_for_it_alone(server, client):
    first = client.responses.create(
        model=AGENT, input="Take a note.", temperature=0.25, top_p=0.5, max_output_tokens=99
    )
    assert first.output_text == "I begin.\n\nNoted."
    wanted = {"temperature": 0.25, "top_p": 0.5, "num_predict": 99}
    assert sent(server, *wanted) == [wanted] * 3
    server.reset()
    server.script("1. Note it.", "And", "again.")
    again = client.responses.create(model=AGENT, input="Again.", previous_response_id=first.id)
    assert again.output_text == "And\n\nagain."
    assert sent(server, "temperature") == [{"temperature": None}] * 3


def test_an_agent_that_is_called_as_a_tool_samples_as_it_is_used_to(server, client):
    server.reset()
    use = ToolCall("agent", {"agent": "clerk", "instruction": "Note it."})
    server.script(Reply(tool_calls=[use]), "1. Note it.", "I begin.", "Noted.", "Done.")
    client.responses.create(
        model=MODEL,
        input="Note it.",
        temperature=0.25,
        tools=[{**OURS, "allowed_tools": ["agent:clerk"]}],
    )
    told = [each["temperature"] for each in sent(server, "temperature")]
    assert told == [0.25, None, None, None, 0.25]


def test_an_effort_is_refused_for_an_agent(server, client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=AGENT, input="Note it.", reasoning={"effort": "low"})
    assert refused.value.param == "reasoning.effort"
