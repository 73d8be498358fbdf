"""Anthropic's package for Python: messages, streams, tools, errors."""

import anthropic
from anthropic import Anthropic, beta_tool
from checks import MODEL, URL, calls, rounds, run, script, thinking
from pydantic import BaseModel

WEATHER = {
    "name": "get_weather",
    "description": "Get the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
client = Anthropic(base_url=URL, api_key="any", max_retries=0)
ADAPTIVE = {"type": "adaptive"}


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def create(*messages, **options):
    said = [
        {"role": "user", "content": each} if isinstance(each, str) else each for each in messages
    ]
    return client.messages.create(model=MODEL, max_tokens=1000, messages=said, **options)


def raised_by(call):
    """Return the error of a call."""
    try:
        call()
    except anthropic.APIStatusError as error:
        return error
    raise AssertionError("there was no error")


def a_message():
    """a message, its tokens and its ids"""
    first, second = create(script("Hello!")), create(script("Hello!"))
    assert (first.content[0].text, first.stop_reason) == ("Hello!", "end_turn")
    assert first.usage.input_tokens > 0
    assert first.usage.output_tokens > 0
    assert first.id != second.id
    assert first._request_id.startswith("req_")


def a_stream():
    """a stream, with reasoning and its signature"""
    asked = {"role": "user", "content": script(thinking(["Be ", "kind."], ["Hel", "lo!"]))}
    with client.messages.stream(
        model=MODEL, max_tokens=1000, messages=[asked], thinking=ADAPTIVE
    ) as stream:
        assert "".join(stream.text_stream) == "Hello!"
        message = stream.get_final_message()
    reasoning, text = message.content
    assert (reasoning.thinking, text.text) == ("Be kind.", "Hello!")
    assert reasoning.signature.startswith("m1.")
    assert message.usage.input_tokens > 0


def tools_and_results():
    """two calls at once, with reasoning that goes back"""
    asked = {
        "role": "user",
        "content": rounds(
            calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"})), "Sunny."
        ),
    }
    answer = create(asked, tools=[WEATHER], thinking=ADAPTIVE)
    wanted = [block for block in answer.content if block.type == "tool_use"]
    assert [call.input["city"] for call in wanted] == ["Paris", "Oslo"]
    assert answer.stop_reason == "tool_use"
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"} for call in wanted
    ]
    last = create(
        asked,
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": results},
        tools=[WEATHER],
    )
    assert last.content[0].text == "Sunny."


def the_tool_runner():
    """the package runs the tools itself"""

    @beta_tool
    def get_weather(city: str) -> str:
        """Get the weather.

        Args:
            city: The city.
        """
        return f"sunny in {city}"

    asked = {"role": "user", "content": rounds(calls(("get_weather", {"city": "Oslo"})), "Sunny.")}
    runner = client.beta.messages.tool_runner(
        model=MODEL, max_tokens=1000, tools=[get_weather], messages=[asked]
    )
    assert runner.until_done().content[0].text == "Sunny."


def a_form():
    """an answer in a form"""
    said = [{"role": "user", "content": script('{"name": "Ada", "age": 36}')}]
    answer = client.messages.parse(
        model=MODEL, max_tokens=1000, messages=said, output_format=Person
    )
    assert isinstance(answer.parsed_output, Person)


def tokens_and_models():
    """tokens are counted, models are listed"""
    said = [{"role": "user", "content": "Hello!"}]
    assert client.messages.count_tokens(model=MODEL, messages=said).input_tokens > 0
    assert MODEL in [model.id for model in client.models.list(limit=1)]
    assert client.models.retrieve(MODEL).max_input_tokens == 40960


def errors():
    """errors have their classes"""
    for options, kind in (
        ({"model": "nope:1b"}, anthropic.NotFoundError),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            anthropic.BadRequestError,
        ),
    ):
        said = [{"role": "user", "content": "Hello!"}]
        given = {"model": MODEL, "max_tokens": 1000, "messages": said, **options}
        error = raised_by(lambda given=given: client.messages.create(**given))
        assert isinstance(error, kind)
        assert error.body["error"]["mochi_code"]


def a_broken_stream():
    """an error within a stream"""
    asked = {"role": "user", "content": script(["One ", "two"], error_line=1)}

    def stream():
        with client.messages.stream(model=MODEL, max_tokens=1000, messages=[asked]) as stream:
            stream.get_final_message()

    assert raised_by(stream).body["error"]["type"] == "api_error"


run(
    [
        a_message, a_stream, tools_and_results, the_tool_runner, a_form, tokens_and_models, errors,
        a_broken_stream,
    ]
)  # fmt: skip
