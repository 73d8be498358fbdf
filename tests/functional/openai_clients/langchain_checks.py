"""LangChain's ``ChatOpenAI``, over chat completions and over Responses."""

import openai
from checks import MODEL, URL, calls, rounds, run, script, thinking
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

PARIS, OSLO = ("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"})
OURS = {"type": "mcp", "server_label": "mochi", "allowed_tools": ["add"]}


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


def model(**options):
    return ChatOpenAI(base_url=URL, api_key="any", model=MODEL, max_retries=0, **options)


def responses(**options):
    return model(use_responses_api=True, **options)


def an_answer():
    """an answer"""
    answer = model().invoke(script("Hello!"))
    assert answer.content == "Hello!"
    assert answer.usage_metadata["input_tokens"] > 0
    assert answer.response_metadata["finish_reason"] == "stop"


def a_stream():
    """a stream with usage"""
    chunks = list(model(stream_usage=True).stream(script(["Hel", "lo", "!"])))
    assert "".join(chunk.content for chunk in chunks) == "Hello!"
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.usage_metadata["output_tokens"] > 0


def tools_and_results():
    """two calls of tools at once, and their results"""
    history = [HumanMessage(rounds(calls(PARIS, OSLO), "Sunny in both."))]
    bound = model().bind_tools([get_weather])
    history.append(bound.invoke(history))
    assert [call["args"]["city"] for call in history[-1].tool_calls] == ["Paris", "Oslo"]
    history += [get_weather.invoke(call) for call in history[-1].tool_calls]
    assert all(isinstance(message, ToolMessage) for message in history[2:])
    assert bound.invoke(history).content == "Sunny in both."


def tools_in_a_stream():
    """calls of tools in a stream"""
    bound = model().bind_tools([get_weather], tool_choice="required")
    whole = None
    for chunk in bound.stream(rounds(calls(PARIS, OSLO))):
        whole = chunk if whole is None else whole + chunk
    assert [call["args"]["city"] for call in whole.tool_calls] == ["Paris", "Oslo"]


def a_form():
    """an answer of a given form"""
    answer = model().with_structured_output(Person, method="json_schema").invoke("Who are you?")
    assert isinstance(answer, Person)


def an_error():
    """an error in the middle of a stream"""
    seen, failed = [], ""
    asked = script(["One", " two", " three"], error_line="runner died")
    try:
        for chunk in model().stream(asked):
            seen += [chunk.content]
    except openai.APIError as error:
        failed = error.message
    assert "runner died" in failed
    assert "".join(seen).startswith("One")


def an_agent():
    """an agent as the model"""
    asked = rounds("1. Note it.", calls(("note", {"text": "milk"})), "Noted.")
    answer = ChatOpenAI(base_url=URL, api_key="any", model="agent:scribe").invoke(asked)
    assert answer.content == "Noted."


def responses_with_reasoning():
    """responses: an answer and a stream with reasoning"""
    asked = script(thinking(["Be ", "polite."], ["Good ", "morning!"]))
    thinks = responses(reasoning={"effort": "low", "summary": "auto"})
    answer = thinks.invoke(asked)
    assert answer.text == "Good morning!"
    assert answer.usage_metadata["output_tokens"] > 0
    whole = None
    for chunk in thinks.stream(asked):
        whole = chunk if whole is None else whole + chunk
    assert whole.text == "Good morning!"
    blocks = [block for block in whole.content_blocks if block["type"] == "reasoning"]
    assert "".join(block.get("reasoning", "") for block in blocks) == "Be polite."


def responses_go_on():
    """responses: the next answer after the previous one"""
    remembers = responses(use_previous_response_id=True)
    history = [HumanMessage(script("One."))]
    history.append(remembers.invoke(history))
    history.append(HumanMessage(script("Two.")))
    answer = remembers.invoke(history)
    assert answer.text == "Two."
    assert answer.response_metadata["id"].startswith("resp_")


def responses_with_tools():
    """responses: tools and their results"""
    history = [HumanMessage(rounds(calls(PARIS, OSLO), "Sunny in both."))]
    bound = responses().bind_tools([get_weather])
    history.append(bound.invoke(history))
    assert [call["args"]["city"] for call in history[-1].tool_calls] == ["Paris", "Oslo"]
    history += [get_weather.invoke(call) for call in history[-1].tool_calls]
    assert bound.invoke(history).text == "Sunny in both."


def responses_with_our_tools():
    """responses: a tool of the server"""
    bound = responses().bind_tools([OURS | {"require_approval": "never"}])
    answer = bound.invoke(rounds(calls(("add", {"a": 1, "b": 2})), "Three."))
    assert answer.text == "Three."
    [call] = [block for block in answer.content if block["type"] == "mcp_call"]
    assert (call["name"], call["output"]) == ("add", "3")


def responses_ask():
    """responses: a tool of the server that asks first"""
    bound = responses(use_previous_response_id=True).bind_tools(
        [OURS | {"require_approval": "always"}]
    )
    history = [HumanMessage(rounds(calls(("add", {"a": 1, "b": 2})), "Three."))]
    history.append(bound.invoke(history))
    [asked] = [b for b in history[-1].content if b["type"] == "mcp_approval_request"]
    history.append(
        HumanMessage(
            [
                {
                    "type": "mcp_approval_response",
                    "approve": True,
                    "approval_request_id": asked["id"],
                }
            ]
        )
    )
    assert bound.invoke(history).text == "Three."


def responses_form():
    """responses: an answer of a given form"""
    answer = responses().with_structured_output(Person, method="json_schema").invoke("Who?")
    assert isinstance(answer, Person)


CHAT = [an_answer, a_stream, tools_and_results, tools_in_a_stream, a_form, an_error, an_agent]
RESPONSES = [
    responses_with_reasoning,
    responses_go_on,
    responses_with_tools,
    responses_with_our_tools,
    responses_ask,
    responses_form,
]

if __name__ == "__main__":
    run([*CHAT, *RESPONSES])
