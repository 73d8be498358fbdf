"""What a chat with Ollama yields and raises when something goes wrong."""

import asyncio
import socket
from contextlib import aclosing

import pytest

from models_app.errors import (
    ModelNotFound,
    OllamaError,
    OllamaUnreachable,
    SchemaNotSupported,
    ThinkingNotSupported,
    ToolsNotSupported,
    Unauthorized,
)
from models_app.language_model import Finished, Retrying, TextDelta
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.retries import BACKOFFS


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch):
    monkeypatch.setattr("models_app.retries.BACKOFFS", ((0.0, 0.01), (0.0, 0.01)))


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "error", "words", "retryable"),
    [
        (404, {"error": "model 'nope' not found"}, ModelNotFound, "model 'nope' not found", False),
        (404, {"error": "model 'nope' not found"}, ModelNotFound, "`ollama pull ", False),
        (
            404,
            {"error": "model 'nope' not found, try pulling it first"},
            ModelNotFound,
            "`ollama pull ",
            False,
        ),
        (404, b"404 page not found", OllamaError, "404 page not found. Is there an Ollama", False),
        (
            400,
            {"error": '"tiny" does not support thinking'},
            ThinkingNotSupported,
            '"tiny" does not support thinking',
            False,
        ),
        (
            400,
            {"error": "library/tiny:latest does not support tools"},
            ToolsNotSupported,
            "library/tiny:latest does not support tools",
            False,
        ),
        (
            500,
            {"error": "invalid JSON schema in format"},
            SchemaNotSupported,
            "invalid JSON schema in format",
            False,
        ),
        (
            400,
            {
                "error": "json: cannot unmarshal string into Go struct field "
                "ChatRequest.tools.function.parameters.required of type []string"
            },
            SchemaNotSupported,
            "parameters.required",
            False,
        ),
        (400, {"error": '"embed" does not support chat'}, OllamaError, "not support chat", False),
        (403, b"", OllamaError, "OLLAMA_ORIGINS", False),
        (401, b"", OllamaError, "credentials", False),
        (500, {"error": 'option "temperature" must be of type float32'}, OllamaError, "opt", False),
        (500, {"error": "do load request: EOF: unexpected EOF"}, OllamaError, "EOF", True),
        (500, {"error": "error parsing tool call: raw='{'"}, OllamaError, "parsing tool", True),
        (
            401,
            {"error": "unauthorized", "signin_url": "https://o/c"},
            Unauthorized,
            "signin",
            False,
        ),
        (400, {"error": "this server cannot run this remote model"}, OllamaError, "remote", False),
        (401, {"error": "unauthorized"}, OllamaError, "`ollama signin`", False),
        (503, {"error": "server busy, please try again."}, OllamaError, "server busy", True),
        (502, b"<html>Bad gateway</html>", OllamaError, "Bad gateway", True),
        (400, {"error": {"message": "an object"}}, OllamaError, "an object", False),
    ],
)
async def test_a_refusal_becomes_a_typed_error_with_the_providers_own_words(
    ollama, fake, wire, status, body, error, words, retryable
):
    fake.answers = [wire.refusal(status, body)]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert type(outcome.error) is error
    assert words in outcome.error.message
    assert outcome.error.retryable is retryable
    assert outcome.error.details["provider"] == "ollama"
    assert outcome.error.details["status"] == status
    assert len(outcome.retries) == (2 if retryable else 0)


async def test_a_redirect_is_not_followed(ollama, fake, wire):
    elsewhere = b"Location: http://user:pw@elsewhere.example/api/chat?key=1\r\n"
    fake.answers = [wire.refusal(307, b"", extra=elsewhere)]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert isinstance(outcome.error, OllamaError)
    assert outcome.error.details["status"] == 307
    assert "http://elsewhere.example" in outcome.error.message
    assert "pw" not in outcome.error.message
    assert len(fake.exchanges) == 1


async def test_a_refusal_whose_body_never_ends_is_still_a_refusal(ollama, fake, wire, monkeypatch):
    monkeypatch.setattr("models_app.ollama.transport._ERROR_BODY_SECONDS", 0.1)

    async def answer(exchange):
        await exchange.send(b"HTTP/1.1 400 X\r\nContent-Length: 100\r\n\r\n{")
        await exchange.client_gone()

    fake.answers = [answer]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.error.message == "HTTP 400"


async def test_nobody_listening_is_unreachable_and_soon_told(wire):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        model = OllamaLanguageModel(f"http://ann:secret@{host}:{port}")
        outcome = await wire.outcome_of(model, wire.request())
        await model.aclose()
        assert isinstance(outcome.error, OllamaUnreachable)
        assert outcome.error.retryable
        assert f"http://{host}:{port}: " in outcome.error.message
        assert "secret" not in outcome.error.message
        assert len(outcome.retries) == 2


def test_backing_off_takes_at_most_the_time_in_which_a_refusal_can_be_plain_http():
    assert len(BACKOFFS) == 2
    assert sum(longest for _, longest in BACKOFFS) <= 1.2


async def test_a_name_that_does_not_resolve_is_unreachable(wire):
    model = OllamaLanguageModel("http://no-such-host.invalid:1")
    outcome = await wire.outcome_of(model, wire.request())
    assert isinstance(outcome.error, OllamaUnreachable)
    assert await model.ping() is False
    await model.aclose()


async def test_a_server_that_does_not_take_the_connection_is_unreachable(wire):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        model = OllamaLanguageModel(f"http://127.0.0.1:{port}", connect_timeout=0.1)
        outcome = await wire.outcome_of(model, wire.request())
        await model.aclose()
        for filler in fillers:
            filler.close()
    assert isinstance(outcome.error, OllamaUnreachable)
    assert "timed out" in outcome.error.message


# --- answers that break off ---------------------------------------------------------------------


async def test_a_reset_in_mid_answer_keeps_what_was_said(ollama, fake, wire):
    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.text("a"), wire.text("b"))
        await exchange.reset()

    fake.answers = [answer]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert isinstance(outcome.error, OllamaError)
    assert outcome.error.retryable
    # A reset may discard what the system had not handed over yet; nothing may come twice.
    assert outcome.deltas[-2:] in ([TextDelta("a"), TextDelta("b")], outcome.retries[-2:])


async def test_a_slow_reader_gets_everything_that_came_before_the_connection_broke(
    ollama, fake, wire
):
    gone = asyncio.Event()

    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.text("a"))
        await wire.settle()
        await exchange.lines(wire.text("b"), {"error": "the runner died"})
        await exchange.hang_up()
        gone.set()

    fake.answers = [answer]
    deltas = []

    async def read_slowly():
        async with aclosing(ollama.stream(wire.request())) as batches:
            async for batch in batches:
                deltas.extend(batch)
                await gone.wait()
                await wire.settle()

    with pytest.raises(OllamaError, match="the runner died"):
        await read_slowly()
    assert deltas == [TextDelta("a"), TextDelta("b")]


async def test_an_end_without_the_final_line_is_an_error(ollama, fake, wire):
    fake.answers = [wire.stream_of(wire.text("a"))]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.deltas == [TextDelta("a")]
    assert isinstance(outcome.error, OllamaError)
    assert outcome.error.retryable
    assert outcome.retries == []


async def test_an_empty_answer_is_tried_again(ollama, fake, wire):
    fake.answers = [wire.stream_of(), wire.stream_of(wire.text("now"), wire.DONE)]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.error is None
    assert outcome.deltas[1:] == [TextDelta("now"), Finished("stop", 21, 41)]
    assert "final line" in outcome.retries[0].reason


async def test_a_connection_that_closes_within_a_line_is_an_error(ollama, fake, wire):
    async def answer(exchange):
        await exchange.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        await exchange.send(b'{"message":{"content":"a"}}\n{"message":{"con')
        await exchange.hang_up()

    fake.answers = [answer]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.deltas == [TextDelta("a")]
    assert "within a line" in outcome.error.message
    assert outcome.error.retryable


async def test_a_body_cut_short_is_an_error(ollama, fake, wire):
    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.text("a"))
        await exchange.send(b"40\r\n{")
        await exchange.hang_up()

    fake.answers = [answer]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.deltas == [TextDelta("a")]
    assert outcome.error.retryable


async def test_broken_chunk_framing_is_an_error(ollama, fake, wire):

    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.text("a"))
        await wire.settle()
        await exchange.send(b"not a size\r\n")
        await exchange.client_gone()

    fake.answers = [answer]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.deltas == [TextDelta("a")]
    assert isinstance(outcome.error, OllamaError)


async def test_what_is_not_http_is_an_error(ollama, fake, wire):
    async def answer(exchange):
        await exchange.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        await exchange.hang_up()

    fake.answers = [answer]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert isinstance(outcome.error, OllamaError)


async def test_silence_before_the_first_byte_is_tried_again(fake, wire):
    async def answer(exchange):
        await exchange.client_gone()

    fake.answers = [answer, wire.stream_of(wire.DONE)]
    model = OllamaLanguageModel(fake.url, silence_timeout=1)
    outcome = await wire.outcome_of(model, wire.request())
    await model.aclose()
    assert outcome.error is None
    assert len(outcome.retries) == 1


async def test_an_error_line_carries_the_providers_own_words(ollama, fake, wire):
    died = "an error was encountered while running the model: unexpected EOF"
    fake.answers = [wire.stream_of(wire.text("a"), {"error": died})]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.deltas == [TextDelta("a")]
    assert outcome.error.message == died
    assert outcome.error.retryable


async def test_a_malformed_line_ends_the_answer_after_what_was_readable(ollama, fake, wire):
    async def answer(exchange):
        body = b'{"message":{"content":"a"}}\n{"message":\n{"done":true}\n'
        await exchange.answer(200, body)

    fake.answers = [answer]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.deltas == [TextDelta("a")]
    assert isinstance(outcome.error, OllamaError)
    assert not outcome.error.retryable


async def test_a_line_of_seventeen_megabytes_is_an_error(ollama, fake, wire):
    sent = 0

    async def answer(exchange):
        nonlocal sent
        await exchange.begin_stream()
        block = b"x" * 2**20
        for _ in range(64):
            await exchange.chunk(block)
            sent += 1

    fake.answers = [answer]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert "longer than 16 MiB" in outcome.error.message
    assert sent < 40


async def test_a_busy_server_is_asked_again_until_it_has_time(ollama, fake, wire):
    busy = wire.refusal(503, {"error": "server busy"})
    fake.answers = [busy, busy, wire.stream_of(wire.text("at last"), wire.DONE)]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.deltas == [
        Retrying("server busy"),
        Retrying("server busy"),
        TextDelta("at last"),
        Finished("stop", 21, 41),
    ]


async def test_a_kept_connection_that_the_server_closed_costs_no_turn(ollama, fake, wire):
    async def answer_and_hang_up(exchange):
        await wire.stream_of(wire.DONE)(exchange)
        await exchange.hang_up()

    fake.answers = [answer_and_hang_up, wire.stream_of(wire.DONE)]
    await wire.outcome_of(ollama, wire.request())
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.error is None
