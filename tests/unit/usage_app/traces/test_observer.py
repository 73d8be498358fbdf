"""Whole trees of spans, as a receiver gets them: names, kinds, attributes, parents."""

import asyncio
import json

import pytest

from chat.registry import TurnRegistry
from chat.service import ChatService
from chat.summaries.service import SummaryService
from chat.turn.observer import ToolEnd, ToolStart, TurnEnd, TurnStart
from chat.turn.state_machine import Input, State
from models_app.language_model import Finished
from models_app.model_calls import ModelCall, ModelCallStart
from models_app.ollama.language_model import OllamaLanguageModel
from tests.unit.usage_app.traces.attributes import answered, asked, executed, turn
from tests.unit.usage_app.traces.conftest import MODEL, SAME, block, calling
from tests.unit.usage_app.traces.folders import write_agent, write_mcp, write_tool
from tests.unit.usage_app.traces.servers import mcp_server
from usage_app.observers import Observers

pytestmark = pytest.mark.allow_blocking  # libraries are imported meanwhile


async def test_a_chat_is_a_turn_with_a_model_call(traced):
    opened = await traced.say(block("Hello!"), temperature=0.5, num_predict=64, stop=["END"])

    (tree,) = traced.trees()
    (call,) = tree[3]
    options = {"gen_ai.request.temperature": 0.5, "gen_ai.request.max_tokens": 64}
    assert tree == (
        f"chat {MODEL}",
        "INTERNAL",
        turn(),
        [(f"chat {MODEL}", "CLIENT", answered(call, **options), [])],
    )
    spans = {span.kind.name: span.attributes for span in traced.spans}
    assert {each["gen_ai.conversation.id"] for each in spans.values()} == {opened.session_id}
    assert spans["INTERNAL"]["mochi.turn.id"] == opened.turn_id
    assert spans["CLIENT"]["server.port"] == int(traced.models.url.rsplit(":", 1)[1])
    assert spans["CLIENT"]["gen_ai.usage.input_tokens"] > 0
    _, headers = traced.models.heads[-1]
    assert headers["traceparent"].split("-")[2] == f"{traced.spans[0].context.span_id:016x}"
    assert 0 <= spans["CLIENT"]["gen_ai.response.time_to_first_chunk"] < 60


async def test_tools_run_below_their_turn_beside_its_model_calls(traced):
    await asyncio.to_thread(write_tool, traced.data_dir)

    await traced.say(block(calling("add", a=1, b=2), calling("add", a=1), "Three."), tools=["add"])

    (tree,) = traced.trees()
    first, run, second, _, third = tree[3]
    assert tree == (
        f"chat {MODEL}",
        "INTERNAL",
        turn(rounds=3, tool_calls=2),
        [
            (f"chat {MODEL}", "CLIENT", answered(first), []),
            ("execute_tool add", "INTERNAL", executed("add"), []),
            (f"chat {MODEL}", "CLIENT", answered(second), []),
            (
                "execute_tool add",
                "INTERNAL",
                executed("add", **{"error.type": "VALIDATION_ERROR"}),
                [],
            ),
            (f"chat {MODEL}", "CLIENT", answered(third), []),
        ],
    )
    assert {span.status.status_code.name for span in traced.spans if span.name == run[0]} == {
        "UNSET",
        "ERROR",
    }


async def test_a_call_of_an_mcp_server_is_a_client_span_that_the_server_is_told(traced):
    async with mcp_server() as server:
        await asyncio.to_thread(write_mcp, traced.data_dir, server.url)

        await traced.say(block(calling("small__run"), "Ran."), tools=["small__run"])

    (tree,) = traced.trees()
    attributes = executed(
        "small__run",
        **{
            "gen_ai.tool.type": "extension",
            "mcp.method.name": "tools/call",
            "mochi.mcp.server": "small",
        },
    )
    assert tree[3][1] == ("execute_tool small__run", "CLIENT", attributes, [])
    span = traced.named("execute_tool small__run")
    told = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-03"
    ((message, headers),) = server.calls()
    assert headers["traceparent"] == told
    assert message["params"]["_meta"]["traceparent"] == told
    others = [headers for message, headers in server.received if message["method"] != "tools/call"]
    assert others
    assert not [headers for headers in others if "traceparent" in headers]


async def test_an_agents_turn_is_below_the_tool_call_that_asked_for_it(traced):
    await asyncio.to_thread(write_agent, traced.data_dir)
    instruction = block("A plan.", calling("note", text="milk"), "Noted.")
    asking = calling("agent", agent="scribe", instruction=instruction)

    await traced.say(block(asking, "All done."), agents=["scribe"])

    (tree,) = traced.trees()
    first, run, last = tree[3]
    (inner,) = run[3]
    planned, acted, _, ended = inner[3]
    agent = {"mochi.purpose": "agent"}
    assert run == (
        "execute_tool agent",
        "INTERNAL",
        executed("agent"),
        [
            (
                "invoke_agent scribe",
                "INTERNAL",
                turn(rounds=3, tool_calls=1, **agent, **{"gen_ai.agent.name": "scribe"}),
                [
                    (f"chat {MODEL}", "CLIENT", answered(planned, **agent), []),
                    (f"chat {MODEL}", "CLIENT", answered(acted, **agent), []),
                    ("execute_tool note", "INTERNAL", executed("note"), []),
                    (f"chat {MODEL}", "CLIENT", answered(ended, **agent), []),
                ],
            )
        ],
    )
    assert tree[2] == turn(rounds=2, tool_calls=1)
    assert [first[2]["mochi.purpose"], last[2]["mochi.purpose"]] == ["chat", "chat"]
    assert len({span.context.trace_id for span in traced.spans}) == 1


async def test_a_vendor_that_refuses_is_an_error_of_call_and_turn(traced_with):
    traced = await traced_with(
        providers=lambda url: {"mine": {"base_url": f"{url}/v1", "api_key_env": None}}
    )

    await traced.say(block(status=400), model="mine:gpt-5.1")

    (tree,) = traced.trees()
    code = {"error.type": tree[2]["error.type"]}
    model = {"gen_ai.request.model": "gpt-5.1"}
    provider = {"gen_ai.system": "mine", "gen_ai.provider.name": "mine"}
    assert tree == (
        "chat mine:gpt-5.1",
        "INTERNAL",
        turn("failed", **code, **{"gen_ai.request.model": "mine:gpt-5.1"}),
        [("chat gpt-5.1", "CLIENT", asked(**model, **provider, **code), [])],
    )
    assert {span.status.status_code.name for span in traced.spans} == {"ERROR"}
    (_, heads) = traced.models.heads[-1]
    call = traced.named("chat gpt-5.1").context
    assert heads["traceparent"] == f"00-{call.trace_id:032x}-{call.span_id:016x}-03"


async def test_a_cancelled_turn_and_what_it_waited_for_have_spans_that_ended(traced):
    opened = await traced.open(block("Half", stall_seconds=60, stall_after=1))
    await traced.models.wait_for_open_streams(1)

    await traced.services.get(TurnRegistry).cancel(opened.session_id)

    (tree,) = traced.trees()
    stopped = {"mochi.stopped": "cancelled"}
    call = tree[3][0]
    first = {"gen_ai.response.time_to_first_chunk": SAME}
    known = {name: value for name, value in first.items() if name in call[2]}
    assert tree == (
        f"chat {MODEL}",
        "INTERNAL",
        turn("cancelled"),
        [(f"chat {MODEL}", "CLIENT", asked(**stopped, **known), [])],
    )
    assert {span.status.status_code.name for span in traced.spans} == {"UNSET"}
    assert traced.open_spans == 0


async def test_a_turn_that_crashes_has_spans_that_ended_with_its_code(traced, monkeypatch):
    async def stream(self, request):
        raise ZeroDivisionError
        yield

    monkeypatch.setattr(OllamaLanguageModel, "stream", stream)

    await traced.say("Hello!")

    (tree,) = traced.trees()
    code = {"error.type": "INTERNAL_ERROR"}
    assert tree == (
        f"chat {MODEL}",
        "INTERNAL",
        turn("failed", **code),
        [(f"chat {MODEL}", "CLIENT", asked(**code), [])],
    )
    assert traced.open_spans == 0


async def test_a_turn_that_the_end_of_the_server_stops_is_exported(traced):
    await traced.open(block("Half", stall_seconds=60, stall_after=1))
    await traced.models.wait_for_open_streams(1)

    await traced.services.get(ChatService).shutdown(0)

    (tree,) = traced.trees()
    assert tree[2] == turn("interrupted", **{"error.type": "SHUTTING_DOWN"})
    assert traced.open_spans == 0


async def test_a_summary_is_a_trace_of_its_own(traced):
    opened = await traced.say(block("Hello!"))

    await traced.services.get(SummaryService).summarize(opened.session_id)

    _, summary = traced.trees()
    assert summary[:2] == (f"chat {MODEL}", "CLIENT")
    assert (
        summary[2].items()
        >= {
            "mochi.purpose": "summary",
            "gen_ai.output.type": "json",
            "gen_ai.request.stream": False,
        }.items()
    )
    span = traced.spans[-1]
    assert span.parent is None
    assert span.attributes["gen_ai.conversation.id"] == opened.session_id
    (_, heads) = traced.models.heads[-1]
    assert heads["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"


async def test_the_newest_names_are_used_where_they_are_asked_for(traced_with):
    traced = await traced_with(
        {"OTEL_SEMCONV_STABILITY_OPT_IN": "http, gen_ai_latest_experimental"}
    )

    await traced.say(block("Hello!"))

    attributes = traced.trees()[0][3][0][2]
    assert attributes["gen_ai.provider.name"] == "ollama"
    assert "gen_ai.system" not in attributes


async def test_nothing_that_was_said_is_in_a_span_by_default(traced):
    async with mcp_server() as server:
        await asyncio.to_thread(write_mcp, traced.data_dir, server.url)
        asking = calling("small__run", word="whisper")

        await traced.say(block(asking, "whisper"), tools=["small__run"])

    assert len(traced.spans) == 4
    assert "whisper" not in "".join(span.to_json() for span in traced.spans)


async def test_what_was_said_is_in_the_spans_where_it_is_asked_for(traced_with):
    traced = await traced_with({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only"})
    async with mcp_server() as server:
        await asyncio.to_thread(write_mcp, traced.data_dir, server.url)
        message = block(calling("small__run", word="milk"), "Done.")

        await traced.say(message, tools=["small__run"])

    (tree,) = traced.trees()
    _, run, last = tree[3]
    text = {"type": "text", "content": message}
    assert json.loads(tree[2]["gen_ai.input.messages"]) == [{"role": "user", "parts": [text]}]
    assert json.loads(tree[2]["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Done."}],
            "finish_reason": "stop",
        }
    ]
    assert json.loads(run[2]["gen_ai.tool.call.arguments"]) == {"word": "milk"}
    assert run[2]["gen_ai.tool.call.result"] == "ran"
    roles = [each["role"] for each in json.loads(last[2]["gen_ai.input.messages"])]
    assert roles == ["user", "assistant", "tool"]


async def test_names_that_models_make_up_can_be_exported(traced):
    start = ToolStart(name="no\ud83dthing" * 100, tool_call_id="c1", session_id="s", is_agent=False)
    observer = traced.services.get(Observers).traces.observer

    async def run():
        observer.tool_started(start)
        observer.tool_ended(ToolEnd(start=start, outcome="TOOL_NOT_FOUND", server=None, seconds=0))

    await asyncio.create_task(run())

    (span,) = traced.spans
    assert len(span.name.encode()) < 1000
    assert span.attributes["gen_ai.tool.name"].encode()


async def test_an_end_without_a_start_and_a_second_end_are_no_spans(traced):
    observer = traced.services.get(Observers).traces.observer
    started = TurnStart(session_id="s", turn_id="t", model="m", purpose="chat")
    ended = TurnEnd(
        start=started, state=State.FAILED, error_code="X", rounds=0, tool_calls=0, seconds=0
    )
    start = ModelCallStart(provider="p", model="m", purpose="chat", owner="default", url="http://[")
    called = ModelCall(
        start=start,
        outcome="ok",
        started_at=0,
        seconds_to_first_token=None,
        seconds=0,
        tokens=Finished(),
    )

    async def run():
        observer.turn_ended(ended)
        observer.turn_started(started)
        await observer.model_calling(start)
        for _ in range(2):
            observer.model_called(called)
            observer.turn_ended(ended)

    await asyncio.create_task(run())

    assert [span.name for span in traced.spans] == ["chat m", "chat m"]
    assert traced.open_spans == 0


async def test_a_call_that_has_ended_is_named_to_nobody(traced):
    observer = traced.services.get(Observers).traces.observer
    start = ModelCallStart(provider="p", model="m", purpose="chat", owner="default")
    called = ModelCall(
        start=start,
        outcome="ok",
        started_at=0,
        seconds_to_first_token=None,
        seconds=0,
        tokens=Finished(),
    )

    async def run():
        before = observer.call_headers()
        await observer.model_calling(start)
        meanwhile = observer.call_headers()
        observer.model_called(called)
        return before, meanwhile, observer.call_headers()

    before, meanwhile, after = await asyncio.create_task(run())

    assert (before, after) == ({}, {})
    assert set(meanwhile) == {"traceparent"}


async def test_a_turn_that_is_stopped_while_a_tool_runs_ends_every_span(traced):
    async with mcp_server() as server:
        await asyncio.to_thread(write_mcp, traced.data_dir, server.url)
        server.released.clear()
        opened = await traced.open(block(calling("small__run"), "Ran."), tools=["small__run"])
        await server.asked.wait()

        live = traced.services.get(TurnRegistry).get(opened.session_id)
        live.engine.stop(Input.CANCEL_REQUESTED)
        await opened.finished()
        server.released.set()

    (tree,) = traced.trees()
    assert tree[3][1][2]["mochi.stopped"] == "interrupted"
    assert tree[2]["mochi.turn.state"] == "cancelled"
    assert traced.open_spans == 0
