"""Images reach every provider byte for byte, with a message and with a tool's result."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from models_app.errors import ContentRefused, FilesNotSupported, ModelError
from sessions_app.messages import AssistantMessage, Attachment, Message, ToolCall, UserMessage
from tests.contract.language_model.cases import (
    ANTHROPIC,
    ARGUMENTS,
    GOOGLE,
    OLLAMA,
    OPENAI,
    OPENROUTER,
    WEATHER,
    Opener,
    Provider,
    answered,
    ask,
    every_provider,
    result,
    text_of,
    user,
)
from tests.unit.sessions_app.attachments import images

PICTURE = images.png(padding=70_000)
CAT = Attachment(
    id=f"sha256:{hashlib.sha256(PICTURE).hexdigest()}",
    name="cat.png",
    media_type="image/png",
    size=len(PICTURE),
)
MURAL = images.png(padding=500_001)
LARGE = msgspec.structs.replace(
    CAT, id=f"sha256:{hashlib.sha256(MURAL).hexdigest()}", size=len(MURAL)
)
PRINT = b"%PDF-1.7 " + bytes(1000)
PAPER = Attachment(id="sha256:da", name="a.pdf", media_type="application/pdf", size=len(PRINT))
KEPT = {CAT.id: PICTURE, LARGE.id: MURAL, PAPER.id: PRINT}
TAKING_PDF = [ANTHROPIC, OPENAI, GOOGLE, OPENROUTER]
LINE = f"[image/png, {len(PICTURE)} bytes, {CAT.id}]"


def showing(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp="t", attachments=(CAT,))


@every_provider
@pytest.mark.parametrize("text", ["Who is it?", ""])
async def test_a_model_gets_the_image_of_a_message(
    provider: Provider, open_model: Opener, text: str
) -> None:
    seeing = {"name": "scripted-vision"} if provider.is_ollama else {}
    files = {CAT.id: PICTURE}
    said = await ask(open_model(provider), provider, showing(text), files=files, **seeing)

    assert LINE in text_of(said)


@every_provider
async def test_an_attachment_without_bytes_is_left_out(
    provider: Provider, open_model: Opener
) -> None:
    said = await ask(open_model(provider), provider, showing("Who is it?"))

    assert "sha256" not in text_of(said)


def files_in(value: Any) -> Iterator[bytes]:
    """Yield what is in base64 anywhere in a request, as a data URL or bare."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from files_in(each)
    elif isinstance(value, str) and len(value) > 1000:
        encoded = value.partition(";base64,")[2] or value
        yield base64.b64decode(encoded.translate(str.maketrans("-_", "+/")), validate=True)


async def refused(
    provider: Provider, open_model: Opener, *messages: Message, status: int = 400, said: Any = None
) -> tuple[list[bytes], ModelError]:
    """Return the files in a request to a server that refuses it in these words, and the error."""
    answer = json.dumps(said)
    head = f"HTTP/1.1 {status} No\r\nContent-Type: application/json\r\nContent-Length: "
    bodies: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(received.split(b"content-length: ")[1].split(b"\r\n")[0])
        bodies.append(await reader.readexactly(length))
        writer.write(f"{head}{len(answer)}\r\n\r\n{answer}".encode())
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0, limit=2**24) as server:
        model = open_model(provider, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(ModelError) as raised:
            await ask(model, provider, *messages, tools=[WEATHER], files=KEPT)
    assert len(bodies) == 1
    return list(files_in(json.loads(bodies[0]))), raised.value


async def sent(provider: Provider, open_model: Opener, *messages: Message) -> list[bytes]:
    """Return the files in a request."""
    files, _ = await refused(provider, open_model, *messages)
    return files


@every_provider
async def test_a_tools_result_takes_its_image_along(provider: Provider, open_model: Opener) -> None:
    call = ToolCall(id="call_1", name="weather", arguments=ARGUMENTS)
    asked = AssistantMessage(content="", message_id="a", timestamp="t", tool_calls=(call,))
    answer = msgspec.structs.replace(result(call, "A map."), attachments=(CAT,))

    assert await sent(provider, open_model, user("Weather?"), asked, answer) == [PICTURE]


@every_provider
async def test_files_of_many_pieces_arrive_in_their_order(
    provider: Provider, open_model: Opener
) -> None:
    said = msgspec.structs.replace(user("Look!"), attachments=(LARGE, CAT))
    again = msgspec.structs.replace(user("And now?"), attachments=(LARGE,))
    history = [said, answered([], "I see."), again]

    assert await sent(provider, open_model, *history) == [MURAL, PICTURE, MURAL]


@pytest.mark.parametrize("provider", TAKING_PDF, ids=lambda each: each.name)
async def test_who_takes_pdfs_gets_them(provider: Provider, open_model: Opener) -> None:
    said = msgspec.structs.replace(user("Read it."), attachments=(PAPER,))

    assert await sent(provider, open_model, said) == [PRINT]


NO_VISION = "Multimodal data provided, but model does not support multimodal requests."
NO_PROJECTOR = "image input is not supported - hint: you may need to provide the mmproj"
REFUSALS: list[tuple[Provider, int, Any]] = [
    (OLLAMA, 400, {"error": json.dumps({"error": {"code": 400, "message": NO_VISION}})}),
    (OLLAMA, 500, {"error": json.dumps({"error": {"code": 500, "message": NO_PROJECTOR}})}),
    (
        ANTHROPIC,
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum",
            },
        },
    ),
    (
        OPENAI,
        400,
        {"error": {"message": "Too many pixels.", "code": "image_too_large", "type": "x"}},
    ),
    (
        GOOGLE,
        400,
        {
            "error": {
                "code": 400,
                "message": "Unable to process input image. Please retry.",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    (
        OPENROUTER,
        404,
        {"error": {"message": "No endpoints found that support image input", "code": 404}},
    ),
]


@pytest.mark.parametrize(("provider", "status", "said"), REFUSALS)
async def test_an_image_that_a_provider_does_not_take_is_the_requests_fault(
    provider: Provider, open_model: Opener, status: int, said: Any
) -> None:
    shown = showing("Who is it?")
    _, error = await refused(provider, open_model, shown, status=status, said=said)

    assert type(error) is FilesNotSupported, error
    assert (error.code, error.retryable) == ("VALIDATION_ERROR", False)
    assert error.details["field"] == "attachments"


async def test_the_image_that_a_blind_model_refuses_is_the_requests_fault(
    open_model: Opener,
) -> None:
    with pytest.raises(FilesNotSupported, match="does not support multimodal"):
        await ask(open_model(OLLAMA), OLLAMA, showing("Who is it?"), files={CAT.id: PICTURE})


async def test_an_image_that_a_filter_refuses_is_refused_content(open_model: Opener) -> None:
    said = {"error": {"message": "No.", "code": "image_content_policy_violation", "type": "x"}}
    _, error = await refused(OPENAI, open_model, showing("Who?"), said=said)

    assert type(error) is ContentRefused
