"""``llm`` with its plugin for Anthropic, which asks for Claude by fixed names."""

import os
import sys

os.environ["ANTHROPIC_BASE_URL"] = sys.argv[1]

import llm
from checks import calls, rounds, run, script


def claude():
    model = llm.get_model("claude-sonnet-4.5")
    model.key = "any"
    return model


def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


def an_answer():
    """an answer, streamed and whole"""
    assert claude().prompt(script(["Hel", "lo", "!"])).text() == "Hello!"
    assert claude().prompt(script("Hello!"), stream=False).text() == "Hello!"


def tools():
    """tools in several rounds"""
    asked = rounds(calls(("get_weather", {"city": "Paris"})), "Sunny.")
    text = claude().chain(asked, tools=[get_weather]).text()
    assert text.strip() == "Sunny."  # it puts a space after what it knows nothing of


run([an_answer, tools])
