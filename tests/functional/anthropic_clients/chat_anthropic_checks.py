"""LangChain's ``ChatAnthropic``."""

from checks import MODEL, URL, calls, rounds, run, script, thinking
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


def model(**options):
    return ChatAnthropic(
        base_url=URL, api_key="any", model=MODEL, max_tokens=1000, max_retries=0, **options
    )


def an_answer():
    """an answer, whole and streamed, with its tokens"""
    answer = model().invoke(script("Hello!"))
    assert answer.content == "Hello!"
    assert answer.usage_metadata["input_tokens"] > 0
    whole = None
    for chunk in model().stream(script(["Hel", "lo", "!"])):
        whole = chunk if whole is None else whole + chunk
    assert whole.text == "Hello!"
    assert whole.usage_metadata["input_tokens"] > 0
    assert whole.usage_metadata["output_tokens"] > 0


def tools_and_results():
    """calls of tools, with reasoning that goes back"""
    bound = model(thinking={"type": "enabled", "budget_tokens": 1024}).bind_tools([get_weather])
    script_of_both = rounds(
        calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"})),
        thinking("I know.", "Sunny in both."),
    )
    history = [HumanMessage(script_of_both)]
    history.append(bound.invoke(history))
    assert [call["args"]["city"] for call in history[-1].tool_calls] == ["Paris", "Oslo"]
    history += [get_weather.invoke(call) for call in history[-1].tool_calls]
    assert bound.invoke(history).text == "Sunny in both."


run([an_answer, tools_and_results])
