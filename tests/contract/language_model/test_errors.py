"""What can go wrong, told by its code in the provider's own words, never with a key."""

from contextlib import aclosing
from typing import Any

import pytest

from models_app.errors import (
    ContentRefused,
    ContextOverflow,
    ModelError,
    ModelNotFound,
    NetworkError,
    OllamaError,
    OllamaUnreachable,
    RateLimited,
    ServiceUnavailable,
    Unauthorized,
)
from models_app.language_model import Delta, Finished, ModelRequest, Retrying
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import make_vendor
from scripted_app.server import ScriptedModelServer
from tests.contract.language_model.cases import (
    KEY,
    Opener,
    Provider,
    ask,
    block,
    every_provider,
    every_vendor,
    says,
    text_of,
    user,
)

# Errors


OURS: dict[int, tuple[type[ModelError], bool]] = {
    400: (ServiceUnavailable, False),
    401: (Unauthorized, False),
    402: (RateLimited, False),
    403: (Unauthorized, False),
    404: (ModelNotFound, False),
    408: (ServiceUnavailable, True),
    429: (RateLimited, True),
    500: (ServiceUnavailable, True),
    502: (ServiceUnavailable, True),
    503: (ServiceUnavailable, True),
    504: (ServiceUnavailable, True),
    529: (ServiceUnavailable, True),
}


@every_vendor
@pytest.mark.parametrize("status", OURS)
async def test_a_status_is_told_by_its_code_in_the_providers_words(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, status: int
) -> None:
    kind, retryable = OURS[status]

    with pytest.raises(ModelError) as raised:
        await ask(open_model(provider), provider, block(status=status))

    error = raised.value
    assert type(error) is kind
    assert error.retryable is retryable
    assert error.details["provider"] == provider.name
    assert error.details["status"] == status
    assert KEY not in repr(error.details) + error.message
    assert "Traceback" not in error.message
    assert error.__cause__ is None
    assert len(scripted.requests) == (3 if retryable else 1)


@every_vendor
async def test_a_wrong_key_is_unauthorized_and_names_its_variable(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(Unauthorized, match="Invalid API key") as raised:
        await ask(open_model(provider), provider, block(status=401))

    assert raised.value.code == "UNAUTHORIZED"
    assert "SOME_KEY" in raised.value.message


@every_vendor
async def test_no_key_is_said_before_anything_is_sent(
    provider: Provider, scripted: ScriptedModelServer
) -> None:
    vendor = make_vendor(provider.name, base_url=scripted.url, key_variable="NO_SUCH_KEY")
    model = VendorLanguageModel(vendor, key_of={}.get)

    for asking in (
        ask(model, provider, user("Hello")),
        model.describe(provider.model),
        model.list_models(),
    ):
        with pytest.raises(Unauthorized, match="set NO_SUCH_KEY in the environment"):
            await asking

    assert not model.is_configured
    assert not scripted.requests


@every_provider
async def test_the_key_is_sent_and_told_nobody(
    provider: Provider,
    open_model: Opener,
    scripted: ScriptedModelServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    model = open_model(provider)
    deltas = await ask(model, provider, user("Hello"))
    with pytest.raises(ModelError) as raised:
        await ask(model, provider, block(error_line=f"wrong key {KEY}", status=None))

    path, headers = scripted.heads[0]
    assert path
    sent = {name: value for name, value in headers.items() if KEY in value}
    assert (sent == {}) is provider.is_ollama
    told = [repr(deltas), repr(raised.value.details), caplog.text, repr(model)]
    assert not [text for text in told if KEY in text]
    if not provider.is_ollama:
        assert KEY not in raised.value.message


@every_provider
async def test_retry_after_is_passed_on_and_waited_for_only_when_short(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    with pytest.raises(RateLimited) as raised:
        await ask(open_model(provider), provider, block(status=429, retry_after=30))

    assert raised.value.retryable
    assert raised.value.details["retry_after"] == 30
    assert len(scripted.requests) == 1


@every_provider
async def test_what_fails_before_the_first_delta_is_tried_three_times_and_told(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    deltas: list[Delta] = []
    request = ModelRequest(model=provider.model, messages=[block(status=503)])

    with pytest.raises(ModelError):  # noqa: PT012 - what came before it counts
        async with aclosing(open_model(provider).stream(request)) as batches:
            async for batch in batches:
                deltas += batch

    assert [type(delta) for delta in deltas] == [Retrying, Retrying]
    assert len(scripted.requests) == 3


@every_provider
@pytest.mark.parametrize(
    "fault",
    [{"drop_after": 2}, {"malformed": 2}, {"error_line": 2}],
    ids=["drop", "malformed", "error"],
)
async def test_a_fault_in_mid_answer_is_an_error_and_no_second_try(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, fault: dict[str, Any]
) -> None:
    said = block(says("one ", "two ", "three ", "four"), **fault)
    deltas: list[Delta] = []
    request = ModelRequest(model=provider.model, messages=[said])

    with pytest.raises(ModelError) as raised:  # noqa: PT012 - what came before it counts
        async with aclosing(open_model(provider).stream(request)) as batches:
            async for batch in batches:
                deltas += batch

    assert text_of(deltas) == "one two "
    assert not any(isinstance(delta, Finished | Retrying) for delta in deltas)
    assert len(scripted.requests) == 1
    if provider.is_ollama:
        assert type(raised.value) is OllamaError
    else:
        expected = NetworkError if "drop_after" in fault else ServiceUnavailable
        assert type(raised.value) is expected
        assert raised.value.retryable


@every_vendor
@pytest.mark.parametrize("after", [0, 2])
async def test_refused_content_is_an_error_of_its_own(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, after: int
) -> None:
    said = block(says("one ", "two ", "three"), refuse_after=after)

    with pytest.raises(ContentRefused) as raised:
        await ask(open_model(provider), provider, said)

    assert not raised.value.retryable
    assert raised.value.details["provider"] == provider.name
    assert len(scripted.requests) == 1


@every_vendor
async def test_a_conversation_that_does_not_fit_is_an_overflow(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(ContextOverflow) as raised:
        await ask(open_model(provider), provider, user("long " * 10_000), name=provider.plain)

    assert not raised.value.retryable
    assert "40960" in raised.value.message or "8192" in raised.value.message


@every_provider
async def test_a_model_that_is_not_there_is_not_found(
    provider: Provider, open_model: Opener
) -> None:
    said = block(status=404)  # the scripted route of OpenAI has a model of every name
    with pytest.raises(ModelNotFound) as raised:
        await ask(open_model(provider), provider, said, name="no-such-model")

    assert raised.value.details["provider"] == provider.name


@every_provider
async def test_no_connection_is_a_network_error_that_can_be_retried(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(ModelError) as raised:
        await ask(open_model(provider, "http://127.0.0.1:9"), provider, user("Hello"))

    assert type(raised.value) is (OllamaUnreachable if provider.is_ollama else NetworkError)
    assert raised.value.retryable
    assert "127.0.0.1:9" in raised.value.message


@every_provider
@pytest.mark.parametrize("after", [0, 1], ids=["before-the-answer", "in-mid-answer"])
async def test_silence_is_an_error_that_can_be_retried(
    provider: Provider, open_model: Opener, after: int
) -> None:
    said = block(says("one ", "two"), stall_seconds=60, stall_after=after)
    model = open_model(provider, silence_timeout=0.3)

    with pytest.raises(ModelError) as raised:
        await ask(model, provider, said)

    assert raised.value.retryable
    assert type(raised.value) is (OllamaError if provider.is_ollama else NetworkError)
