"""Images reach every provider byte for byte, with a message and with a tool's result."""

import hashlib

import pytest

from models_app.ollama.language_model import OllamaLanguageModel
from models_app.vendors.language_model import VendorLanguageModel
from sessions_app.messages import Attachment, ToolMessage, UserMessage
from tests.contract.language_model.cases import (
    ARGUMENTS,
    WEATHER,
    Opener,
    Provider,
    answered,
    ask,
    block,
    calls,
    every_provider,
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
LINE = f"[image/png, {len(PICTURE)} bytes, {CAT.id}]"


def showing(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp="t", attachments=(CAT,))


@every_provider
@pytest.mark.parametrize("text", ["Who is it?", ""])
async def test_a_model_gets_the_image_of_a_message(
    provider: Provider, open_model: Opener, text: str
) -> None:
    said = await ask(open_model(provider), provider, showing(text), files={CAT.id: PICTURE})

    assert LINE in text_of(said)


@every_provider
async def test_an_attachment_without_bytes_is_left_out(
    provider: Provider, open_model: Opener
) -> None:
    said = await ask(open_model(provider), provider, showing("Who is it?"))

    assert "sha256" not in text_of(said)


@every_provider
async def test_a_model_gets_the_image_of_a_tools_result(
    provider: Provider, open_model: Opener
) -> None:
    model: OllamaLanguageModel | VendorLanguageModel = open_model(provider)
    question = block(calls(("weather", ARGUMENTS)))
    asked = answered(await ask(model, provider, question, tools=[WEATHER]))
    call = asked.tool_calls[0]
    result = ToolMessage(
        content="A map.",
        message_id="r",
        timestamp="t",
        tool_name=call.name,
        tool_call_id=call.id,
        attachments=(CAT,),
    )
    history = [question, asked, result, answered([], "I see."), user("And now?")]

    said = await ask(model, provider, *history, tools=[WEATHER], files={CAT.id: PICTURE})

    assert "And now?" in text_of(said)
