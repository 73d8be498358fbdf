"""Batches that are handed to a sink from where they arrive, instead of waking whoever iterates."""

import asyncio
from contextlib import aclosing

import pytest

from models_app.errors import ModelError
from models_app.language_model import CallDelta, Finished, TextDelta

WORDS = [f"word-{number} " for number in range(60)]


def token_by_token(wire, *lines):
    """Answer with one line a read: the next one is sent when the last one has arrived."""

    async def answer(exchange):
        await exchange.begin_stream()
        for line in lines:
            await exchange.lines(line)
            await wire.settle()
        await exchange.end_stream()

    return answer


class Sink:
    """Takes batches of text, but not those of which ``refuses`` says so."""

    def __init__(self, refuses=lambda number: False):
        self.order, self.offered, self.taken = [], 0, 0
        self._refuses = refuses

    def __call__(self, batch):
        self.offered += 1
        if any(type(delta) is not TextDelta for delta in batch) or self._refuses(self.offered):
            return False
        self.taken += 1
        self.order += batch
        return True


async def collected(model, request, sink):
    """Return everything in the order in which it came, taken or yielded."""
    async with aclosing(model.stream(request)) as batches:
        async for batch in batches:
            sink.order += batch
    return sink.order


@pytest.mark.parametrize(
    "refuses",
    [lambda _: False, lambda _: True, lambda number: number % 3 == 0, lambda number: number > 20],
    ids=["none", "all", "some", "from some on"],
)
async def test_what_is_taken_and_what_is_yielded_are_the_reply_in_order(
    ollama, fake, wire, refuses
):
    fake.answers = [token_by_token(wire, *map(wire.text, WORDS), wire.DONE)]
    sink = Sink(refuses)

    deltas = await collected(ollama, wire.request(sink=sink), sink)

    assert "".join(delta.text for delta in deltas[:-1]) == "".join(WORDS)
    assert deltas[-1] == Finished("stop", 21, 41)
    assert sink.offered > 0


async def test_the_sink_spares_the_iteration_nearly_all_batches(ollama, fake, wire):
    fake.answers = [token_by_token(wire, *map(wire.text, WORDS), wire.DONE)]
    sink = Sink()
    async with aclosing(ollama.stream(wire.request(sink=sink))) as batches:
        yielded = [batch async for batch in batches]

    assert yielded[0][0] == TextDelta(WORDS[0])  # the first batch is always yielded
    assert yielded[-1][-1] == Finished("stop", 21, 41)
    assert sink.taken > len(yielded)


async def test_a_call_in_between_is_yielded_at_its_place(ollama, fake, wire):
    call = {"id": "call_1", "function": {"index": 0, "name": "add", "arguments": {"a": 1}}}
    asks = {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False}
    fake.answers = [
        token_by_token(wire, wire.text("a"), wire.text("b"), asks, wire.text("c"), wire.DONE)
    ]
    sink = Sink()

    deltas = await collected(ollama, wire.request(sink=sink), sink)

    kinds = [type(delta) for delta in deltas]
    assert kinds == [TextDelta, TextDelta, CallDelta, TextDelta, Finished]


@pytest.mark.parametrize(
    "last", [{"error": "it broke"}, "this is no JSON", None], ids=["error", "rubbish", "cut off"]
)
async def test_what_fails_fails_in_the_iteration_after_what_came_before(ollama, fake, wire, last):
    lines = [wire.text("a"), wire.text("b"), wire.text("c")]

    async def answer(exchange):
        await exchange.begin_stream()
        for line in lines if last is None else [*lines, last]:
            await (exchange.chunk(b"rubbish\n") if isinstance(line, str) else exchange.lines(line))
            await wire.settle()
        if last is None:
            exchange.writer.transport.abort()
        else:
            await exchange.end_stream()

    fake.answers = [answer]
    sink = Sink()

    with pytest.raises(ModelError):
        await collected(ollama, wire.request(sink=sink), sink)

    assert [delta.text for delta in sink.order] == ["a", "b", "c"]


async def test_a_sink_that_fails_fails_the_iteration(ollama, fake, wire):
    def broken(batch):
        raise ZeroDivisionError

    fake.answers = [token_by_token(wire, *map(wire.text, WORDS), wire.DONE)]

    with pytest.raises(ZeroDivisionError):
        await collected(ollama, wire.request(sink=broken), Sink())


async def test_nothing_is_handed_to_the_sink_of_an_iteration_that_was_stopped(ollama, fake, wire):
    go_on = asyncio.Event()

    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.text("a"))
        await go_on.wait()
        await exchange.lines(wire.text("b"))

    fake.answers = [answer]
    sink, begun = Sink(), asyncio.Event()

    async def listen():
        async with aclosing(ollama.stream(wire.request(sink=sink))) as batches:
            async for _ in batches:
                begun.set()

    listening = asyncio.create_task(listen())
    await begun.wait()
    await wire.settle()
    listening.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await listening
    await wire.settle()

    assert sink.offered == 0


async def test_a_connection_that_is_used_again_knows_nothing_of_the_sink_before(ollama, fake, wire):
    fake.answers = [token_by_token(wire, *map(wire.text, WORDS), wire.DONE)]
    first, second = Sink(), Sink()
    await collected(ollama, wire.request(sink=first), first)
    offered = first.offered

    await collected(ollama, wire.request(sink=second), second)
    async with aclosing(ollama.stream(wire.request())) as batches:
        yielded = [delta async for batch in batches for delta in batch]

    assert first.offered == offered
    assert "".join(delta.text for delta in yielded[:-1]) == "".join(WORDS)
    assert fake.connections == 1
