"""The services of a server whose spans stay in memory, with scripted models."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog.contextvars  # noqa: F401 - a turn imports it, which would block the loop
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chat.service import ChatRequest, ChatService, OpenTurn
from chat.start.turn_request import TurnRequest
from mochi_project.app import Services, build_services
from mochi_project.configuration.loading import load_settings
from scripted_app.server import ScriptedModelServer
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.session import AgentSettings, ToolSettings, make_session
from usage_app.observers import Observers

MODEL = "qwen3:14b"
SAME = "..."
"""Stands for values that differ from run to run."""
_DIFFERING = frozenset(
    {
        "gen_ai.conversation.id",
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.tool.call.id",
        "mochi.turn.id",
        "server.port",
    }
)


def block(*entries: Any, **keys: Any) -> str:
    """Return a user message that scripts its answers, one for each request of a model."""
    messages = [
        entry if isinstance(entry, dict) else {"text_message": {"text": entry}} for entry in entries
    ]
    script = {"messages": messages, "per_request": True, **keys} if messages else keys
    return f"<|instruction_start|>{json.dumps(script)}<|instruction_end|>"


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    """Return an entry of a script in which the model calls a tool."""
    return {"tool_call": [{"name": name, "args": arguments}]}


Tree = tuple[str, str, dict[str, Any], list["Tree"]]


@dataclass
class Traced:
    """A server's services, its scripted models, and the spans that have ended."""

    services: Services
    models: ScriptedModelServer
    exporter: InMemorySpanExporter
    data_dir: Path

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    @property
    def open_spans(self) -> int:
        assert self.services.get(Observers).traces is not None
        return self.services.get(Observers).traces.observer.open_spans

    def named(self, name: str) -> ReadableSpan:
        (span,) = [each for each in self.spans if each.name == name]
        return span

    def trees(self) -> list[Tree]:
        """Return what was traced: names, kinds, attributes, and what is below."""
        return self._below({None} | self._remote())

    async def open(
        self,
        message: str,
        *,
        model: str = MODEL,
        tools: Sequence[str] = (),
        agents: Sequence[str] = (),
        **options: Any,
    ) -> OpenTurn:
        """Start a turn on a new session."""
        session = make_session(
            new_session_id(),
            model,
            now=utc_now(),
            tool_settings=ToolSettings(tools=list(tools), execution_policy="never_confirm"),
            agent_settings=AgentSettings(enabled_agents=list(agents)) if agents else None,
        )
        turn = TurnRequest(message=message, detached=True, options=options)
        return await self.services.get(ChatService).open(ChatRequest(turn=turn, new=session))

    async def say(self, message: str, **more: Any) -> OpenTurn:
        """Have a turn to its end."""
        turn = await self.open(message, **more)
        await turn.finished()
        return turn

    def _remote(self) -> set[int | None]:
        own = {span.context.span_id for span in self.spans}
        return {span.parent.span_id for span in self.spans if span.parent} - own

    def _below(self, parents: set[int | None]) -> list[Tree]:
        found = [
            span for span in self.spans if (span.parent.span_id if span.parent else None) in parents
        ]
        return [
            (
                span.name,
                span.kind.name,
                {
                    name: SAME if name in _DIFFERING else value
                    for name, value in (span.attributes or {}).items()
                },
                self._below({span.context.span_id}),
            )
            for span in sorted(found, key=lambda each: each.start_time or 0)
        ]


OpenTraced = Callable[..., Any]


@pytest.fixture
async def traced_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Any]]:
    """Return how to open services with a configuration; they close with the test."""
    async with AsyncExitStack() as stack:

        async def make(variables: Mapping[str, str] | None = None, **settings: Any) -> Traced:
            for name, value in {"OTEL_TRACES_EXPORTER": "none", **(variables or {})}.items():
                monkeypatch.setenv(name, value)
            return await stack.enter_async_context(_open(tmp_path, settings))

        yield make


@asynccontextmanager
async def _open(data_dir: Path, settings: Mapping[str, Any]) -> AsyncIterator[Traced]:
    models = ScriptedModelServer(words_per_second=0)
    await models.start()
    given = {"data_dir": data_dir, "ollama_host": models.url, "traces": True, **settings}
    given = {name: value(models.url) if callable(value) else value for name, value in given.items()}
    services = await asyncio.to_thread(lambda: build_services(load_settings(**given)))
    assert services.get(Observers).traces is not None
    provider, _ = await asyncio.to_thread(services.get(Observers).traces.open)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    try:
        yield Traced(services, models, exporter, data_dir)
    finally:
        await services.aclose()
        await models.stop()


@pytest.fixture
async def traced(traced_with: Callable[..., Any]) -> Traced:
    """Return services without any special configuration."""
    opened: Traced = await traced_with()
    return opened
