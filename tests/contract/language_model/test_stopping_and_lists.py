"""Stopping stops the provider; and what is told of models."""

import asyncio

import pytest

from models_app.errors import (
    ModelNotFound,
    NetworkError,
)
from models_app.language_model import (
    ModelRequest,
)
from models_app.vendors.anthropic import Anthropic
from models_app.vendors.compatible import CompatibleServer
from models_app.vendors.google import Google
from models_app.vendors.openai import OpenAI
from models_app.vendors.openrouter import OpenRouter
from models_app.vendors.registry import make_vendor
from scripted_app.server import ScriptedModelServer
from tests.contract.language_model.cases import (
    ANTHROPIC,
    EVERY,
    GOOGLE,
    MINE,
    OLLAMA,
    OPENROUTER,
    VENDORS,
    Opener,
    Provider,
    Serve,
    ask,
    block,
    every_provider,
    every_vendor,
    says,
    until,
    user,
)

# Stopping


@every_provider
@pytest.mark.parametrize("after", [0, 1], ids=["before-the-answer", "in-mid-answer"])
async def test_cancelling_closes_the_upstream_socket(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, after: int
) -> None:
    said = block(says("one ", "two"), stall_seconds=60, stall_after=after)
    model = open_model(provider)
    await ask(model, provider, user("Hi"))  # what is imported first takes seconds
    task = asyncio.create_task(ask(model, provider, said))
    await until(lambda: scripted.open_streams == 1)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with asyncio.timeout(60):
        await scripted.wait_for_open_streams(0)


@every_provider
async def test_closing_the_generator_closes_the_upstream_socket(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    said = block(says("one ", "two"), stall_seconds=60, stall_after=1)
    stream = open_model(provider).stream(ModelRequest(model=provider.model, messages=[said]))
    await anext(stream)

    await stream.aclose()

    async with asyncio.timeout(60):
        await scripted.wait_for_open_streams(0)


# Lists


@every_provider
async def test_models_are_described_once_and_listed_by_the_names_to_ask_for(
    provider: Provider, open_model: Opener
) -> None:
    model = open_model(provider)
    assert model.recall(provider.model) is None

    info = await model.describe(provider.model)
    listed = await model.list_models()

    prefix = "" if provider.is_ollama else f"{provider.name}:"
    assert info.name == f"{prefix}{provider.model}"
    assert info.provider == provider.name
    assert info.can_chat
    assert info.can_think
    assert model.recall(provider.model) is not None
    assert len(listed) in (2, 3)
    assert {each.provider for each in listed} == {provider.name}
    assert all(each.name.startswith(prefix) for each in listed)
    told = provider in (OLLAMA, ANTHROPIC, GOOGLE, OPENROUTER)
    assert info.context_length == (40960 if told else None)


@pytest.mark.parametrize("provider", [p for p in EVERY if p is not MINE], ids=lambda it: it.name)
async def test_what_a_provider_does_not_have_is_not_described(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(ModelNotFound) as raised:
        await open_model(provider).describe("no-such-model")

    assert raised.value.details["provider"] == provider.name


async def test_a_server_of_ones_own_may_have_models_that_it_does_not_list(
    open_model: Opener, serve: Serve
) -> None:
    async def no_list(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")

    for model in (open_model(MINE), open_model(MINE, await serve(no_list))):
        info = await model.describe("loaded-on-demand")
        assert info.name == "mine:loaded-on-demand"
        assert info.can_chat


@every_vendor
async def test_a_vendor_that_does_not_answer_can_not_be_described(
    provider: Provider, open_model: Opener
) -> None:
    for url, silence in (("http://127.0.0.1:9", 5.0),):
        with pytest.raises(NetworkError):
            await open_model(provider, url, silence_timeout=silence).list_models()


def test_each_provider_has_its_own_client() -> None:
    clients = {
        type(make_vendor(each.name, base_url="http://x", key_variable=None)) for each in VENDORS
    }

    assert clients == {Anthropic, OpenAI, Google, OpenRouter, CompatibleServer}
