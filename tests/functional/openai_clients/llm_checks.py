"""``llm``, as its users set it up: a file that names the models."""

import json
import os
from pathlib import Path

from checks import MODEL, URL, calls, rounds, run, script, thinking

# JSON is YAML.
Path(os.environ["LLM_USER_PATH"], "extra-openai-models.yaml").write_text(
    json.dumps(
        [
            {
                "model_id": "mochi",
                "model_name": MODEL,
                "api_base": URL,
                "supports_tools": True,
                "supports_schema": True,
            },
            {"model_id": "scribe", "model_name": "agent:scribe", "api_base": URL},
            {
                "model_id": "mochi-responses",
                "model_name": MODEL,
                "api_base": URL,
                "responses": True,
                "reasoning": True,
                "supports_tools": True,
            },
        ]
    )
)

import llm  # noqa: E402 - it reads that file


def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


def an_answer():
    """an answer, streamed and whole"""
    model = llm.get_model("mochi")
    assert model.prompt(script(["Hel", "lo", "!"])).text() == "Hello!"
    assert model.prompt(script("Hello!"), stream=False).text() == "Hello!"


def a_conversation():
    """a conversation"""
    conversation = llm.get_model("mochi").conversation()
    assert conversation.prompt(script("One.")).text() == "One."
    assert conversation.prompt(script("Two.")).text() == "Two."


def tools():
    """tools in several rounds"""
    model = llm.get_model("mochi")
    asked = rounds(calls(("get_weather", {"city": "Paris"})), "Sunny.")
    assert model.chain(asked, tools=[get_weather]).text() == "Sunny."


def a_form():
    """an answer of a given form"""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = llm.get_model("mochi").prompt("Who are you?", schema=schema)
    assert isinstance(json.loads(answer.text())["name"], str)


def usage():
    """the tokens that were used"""
    answer = llm.get_model("mochi").prompt(script("Hello!"))
    answer.text()
    assert answer.usage().input > 0
    assert answer.usage().output > 0


def an_agent():
    """an agent as the model"""
    asked = rounds("1. Note it.", calls(("note", {"text": "milk"})), "Noted.")
    assert llm.get_model("scribe").prompt(asked).text() == "Noted."


def responses():
    """responses: an answer after reasoning"""
    model = llm.get_model("mochi-responses")
    asked = script(thinking(["Be ", "polite."], ["Good ", "morning!"]))
    assert model.prompt(asked).text() == "Good morning!"


def responses_with_tools():
    """responses: tools"""
    model = llm.get_model("mochi-responses")
    asked = rounds(calls(("get_weather", {"city": "Paris"})), "Sunny.")
    assert model.chain(asked, tools=[get_weather]).text() == "Sunny."


CHAT = [an_answer, a_conversation, tools, a_form, usage, an_agent]
RESPONSES = [responses, responses_with_tools]

if __name__ == "__main__":
    run([*CHAT, *RESPONSES])
