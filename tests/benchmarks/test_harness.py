"""The harness's own pieces work: what it measures with is not what goes wrong."""

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import ollama
import pytest
from hypothesis import given
from hypothesis import strategies as st

HERE = Path(__file__).parent


def load(name: str) -> ModuleType:
    """Import a piece of the harness, which is a folder of scripts and no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        return importlib.import_module(name)


client = load("client")
upstream = load("upstream")


@pytest.fixture
def upstream_url() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(HERE / "upstream.py")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening on ").strip()
        process.terminate()


def test_the_real_client_reads_what_the_upstream_streams(upstream_url: str) -> None:
    reader = ollama.Client(host=upstream_url)
    try:
        chunks = list(
            reader.chat("bench:100x0", [{"role": "user", "content": "Hello"}], stream=True)
        )
        assert "".join(chunk.message.content for chunk in chunks) == upstream.reply_text(100)
        assert len(chunks) == 101
        assert (chunks[-1].done_reason, chunks[-1].eval_count) == ("stop", 100)
        assert "bench:256x0" in {model.model for model in reader.list().models}
        assert reader.show("bench:256x0").capabilities == ["completion"]
    finally:
        reader._client.close()


@pytest.mark.parametrize("model", ["bench:256x0", "bench:40x1000"])
async def test_the_load_client_counts_every_token(upstream_url: str, model: str) -> None:
    connection = await client.Connection.open(upstream_url, b'"done":false')
    request = connection.request_bytes("POST", "/api/chat", {"model": model, "messages": []})
    for _ in range(2):
        reply = await connection.stream(request)
        assert reply.tokens == int(model.partition(":")[2].partition("x")[0])
        assert reply.to_first_token > 0
    statistics = await connection.ask("GET", "/bench/stats")
    assert (statistics["open_streams"], statistics["broken_at"]) == (0, [])
    connection.leave()


@given(st.lists(st.integers(1, 400), max_size=20))
def test_tokens_are_counted_once_however_the_reads_fall(cuts: list[int]) -> None:
    async def feed() -> None:
        script = upstream.script_of("bench:9x0")
        stream = upstream.STREAM_HEAD + b"".join(script.tokens) + script.end
        connection = client.Connection("test", b'"done":false')
        connection.transport = type("Sink", (), {"write": lambda self, data: None})()
        finished = connection.start(b"")
        for size in [*cuts, len(stream)]:
            if stream:
                connection.data_received(stream[:size])
            stream = stream[size:]
        assert connection.reply.tokens == 9
        assert finished.done()

    asyncio.run(feed())
