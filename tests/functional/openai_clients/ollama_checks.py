"""LangChain's ``ChatOllama`` and ``llm`` with its plugin, at the address of Ollama."""

import json
import os

from checks import MODEL, URL, calls, rounds, run, script, thinking

HOST = URL.removesuffix("/v1") + "/ollama"
os.environ["OLLAMA_HOST"] = HOST

import llm  # noqa: E402 - its plugin lists the models of that host
import ollama  # noqa: E402
from langchain_core.messages import HumanMessage  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_ollama import ChatOllama  # noqa: E402
from pydantic import BaseModel  # noqa: E402

NAME = f"ollama/{MODEL}"
PARIS, OSLO = ("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"})


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


def weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


def model(**options):
    return ChatOllama(base_url=HOST, model=MODEL, **options)


def an_answer():
    """an answer, of a model that is looked for first"""
    answer = model(validate_model_on_init=True).invoke(script("Hello!"))
    assert answer.content == "Hello!"
    assert answer.usage_metadata["input_tokens"] > 0
    assert answer.response_metadata["done_reason"] == "stop"


def a_stream_with_reasoning():
    """a stream with reasoning"""
    asked = script(thinking(["Be ", "polite."], ["Good ", "morning!"]))
    whole = None
    for chunk in model(reasoning=True).stream(asked):
        whole = chunk if whole is None else whole + chunk
    assert whole.content == "Good morning!"
    assert whole.additional_kwargs["reasoning_content"] == "Be polite."
    assert whole.usage_metadata["output_tokens"] > 0


def tools_and_results():
    """two calls of tools at once, and their results"""
    history = [HumanMessage(rounds(calls(PARIS, OSLO), "Sunny in both."))]
    bound = model().bind_tools([get_weather])
    history.append(bound.invoke(history))
    assert [call["args"]["city"] for call in history[-1].tool_calls] == ["Paris", "Oslo"]
    history += [get_weather.invoke(call) for call in history[-1].tool_calls]
    assert bound.invoke(history).content == "Sunny in both."


def a_form():
    """an answer of a given form"""
    answer = model().with_structured_output(Person, method="json_schema").invoke("Who are you?")
    assert isinstance(answer, Person)


def an_error():
    """an error in the middle of a stream"""
    seen, failed = [], ""
    try:
        for chunk in model().stream(script(["One", " two", " three"], error_line="runner died")):
            seen += [chunk.content]
    except ollama.ResponseError as error:
        failed = error.error
    assert "runner died" in failed
    assert "".join(seen).startswith("One")


def an_agent():
    """an agent as the model"""
    asked = rounds("1. Note it.", calls(("note", {"text": "milk"})), "Noted.")
    assert ChatOllama(base_url=HOST, model="agent:scribe").invoke(asked).content == "Noted."


def llm_lists_models():
    """llm: models of Ollama, and answers"""
    answer = llm.get_model(NAME).prompt(script(["Hel", "lo", "!"]))
    assert answer.text() == "Hello!"
    assert answer.usage().output > 0
    assert llm.get_model("ollama/agent:scribe")


def llm_calls_tools():
    """llm: tools in several rounds"""
    asked = rounds(calls(("weather", {"city": "Paris"})), "Sunny.")
    assert llm.get_model(NAME).chain(asked, tools=[weather]).text() == "Sunny."


def llm_form():
    """llm: an answer of a given form"""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = llm.get_model(NAME).prompt("Who are you?", schema=schema)
    assert isinstance(json.loads(answer.text())["name"], str)


LANGCHAIN = [an_answer, a_stream_with_reasoning, tools_and_results, a_form, an_error, an_agent]
LLM = [llm_lists_models, llm_calls_tools, llm_form]

if __name__ == "__main__":
    run([*LANGCHAIN, *LLM])
