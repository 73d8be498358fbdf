"""What vendors tell of their models, each in its own form."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from models_app.errors import ModelNotFound, NetworkError, ServiceUnavailable, Unauthorized
from models_app.vendors.http_client import open_client
from models_app.vendors.inventory import CACHE_SECONDS, VendorInventory
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import make_vendor

KEY = "canary-0123456789"
Serve = Callable[..., Awaitable[VendorLanguageModel]]


@pytest.fixture
async def serve():
    """Serve one JSON answer at every path; returns the vendor's models, and notes who asks."""
    runners: list[web.AppRunner] = []
    models: list[VendorLanguageModel] = []

    async def start(name: str, answer: Any, status: int = 200, asked: list[Any] | None = None):
        async def handle(request: web.Request) -> web.Response:
            if asked is not None:
                asked.append((request.path_qs, dict(request.headers)))
            if isinstance(answer, bytes):
                return web.Response(body=answer, status=status)
            return web.json_response(answer, status=status)

        app = web.Application()
        app.router.add_get("/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        vendor = make_vendor(name, base_url=url, key_variable="K")
        models.append(VendorLanguageModel(vendor, key_of={"K": KEY}.get))
        return models[-1]

    yield start
    for each in models:
        await each.aclose()
    for runner in runners:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("vendor", "said", "known"),
    [
        ("openai", {"created": 1_760_000_000}, 1_760_000_000),
        ("openrouter", {"created": 1_760_000_000.5, "supported_parameters": []}, 1_760_000_000),
        ("anthropic", {"created_at": "2025-10-09T08:53:20Z"}, 1_760_000_000),
        ("google", {"supportedGenerationMethods": ["generateContent"]}, None),
        ("openai", {"created": "yesterday"}, None),
        ("openai", {"created": -5}, None),
        ("openai", {"created": 10**30}, None),
        ("openai", {"created_at": "yesterday"}, None),
        ("openai", {"created_at": 5}, None),
    ],
)
async def test_a_model_tells_when_it_came_to_be(
    serve: Serve, vendor: str, said: dict[str, Any], known: int | None
) -> None:
    models = await serve(vendor, {"data": [{"id": "m", **said}]})

    assert [info.modified_at for info in await models.list_models()] == [known]


async def test_a_server_of_ones_own_says_the_time_of_the_request_which_is_none(
    serve: Serve,
) -> None:
    models = await serve("mine", {"data": [{"id": "m", "created": 1_760_000_000}]})

    assert [info.modified_at for info in await models.list_models()] == [None]


async def test_openrouter_tells_all(serve: Serve) -> None:
    models = await serve(
        "openrouter",
        {
            "data": [
                {
                    "id": "a/b",
                    "context_length": 100,
                    "supported_parameters": ["tools", "reasoning"],
                    "architecture": {
                        "input_modalities": ["text", "image"],
                        "output_modalities": ["text", "image"],
                    },
                },
                {"id": "a/plain", "context_length": None, "supported_parameters": []},
                {"id": "a/painter", "architecture": {"output_modalities": ["image"]}},
                {"no": "id"},
                5,
            ]
        },
    )

    b, plain = await models.list_models()

    assert (b.name, b.context_length, b.provider) == ("openrouter:a/b", 100, "openrouter")
    assert tuple(b.capabilities) == ("completion", "tools", "thinking", "vision")
    assert not plain.can_see
    assert (plain.name, plain.context_length) == ("openrouter:a/plain", None)
    assert tuple(plain.capabilities) == ("completion",)
    # A variant is the model with another routing.
    assert (await models.describe("a/b:free")).context_length == 100
    with pytest.raises(ModelNotFound):
        await models.describe("a/painter")
    with pytest.raises(ModelNotFound):
        await models.describe("a/none")


async def test_google_lists_what_can_not_chat_too(serve: Serve) -> None:
    models = await serve(
        "google",
        {
            "models": [
                {
                    "name": "models/gemini-x",
                    "inputTokenLimit": 1000,
                    "supportedGenerationMethods": ["generateContent"],
                    "thinking": True,
                },
                {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]},
            ]
        },
    )

    (info,) = await models.list_models()

    assert (info.name, info.context_length, info.can_think) == ("google:gemini-x", 1000, True)


async def test_openais_names_that_do_not_chat_are_left_out(serve: Serve) -> None:
    names = ["gpt-5.1", "text-embedding-3-small", "whisper-1", "dall-e-3", "ft:gpt-4o:me"]
    models = await serve("openai", {"data": [{"id": name} for name in names]})

    listed = [info.name for info in await models.list_models()]

    assert listed == ["openai:gpt-5.1", "openai:ft:gpt-4o:me"]


@pytest.mark.parametrize(
    ("item", "length"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"meta": {"n_ctx_train": 2048}}, 2048),
        ({"context_length": 8192}, 8192),
        ({}, None),
        ({"max_model_len": "long"}, None),
    ],
)
async def test_local_servers_say_how_long_a_context_is_under_names_of_their_own(
    serve: Serve, item: dict[str, Any], length: int | None
) -> None:
    models = await serve("mine", {"object": "list", "data": [{"id": "m", **item}]})

    assert (await models.describe("m")).context_length == length


@pytest.mark.parametrize(
    ("name", "header", "path"),
    [
        ("anthropic", "x-api-key", "/v1/models?limit=1000"),
        ("google", "x-goog-api-key", "/v1beta/models?pageSize=1000"),
        ("openai", "Authorization", "/models"),
        ("mine", "Authorization", "/models"),
    ],
)
async def test_the_key_goes_into_a_header_and_never_into_the_address(
    serve: Serve, name: str, header: str, path: str
) -> None:
    asked: list[Any] = []
    models = await serve(name, {"data": []}, asked=asked)

    await models.list_models()

    ((asked_path, headers),) = asked
    assert asked_path == path
    assert KEY in {key.lower(): value for key, value in headers.items()}[header.lower()]


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (401, {"error": {"message": f"bad key {KEY}"}}, Unauthorized),
        (500, b"<html>", ServiceUnavailable),
        (200, b"<html>", ServiceUnavailable),
        (200, b"\xff{", ServiceUnavailable),
    ],
)
async def test_a_refusal_is_told_without_the_key(
    serve: Serve, status: int, answer: Any, kind: type[Exception]
) -> None:
    models = await serve("openai", answer, status)

    with pytest.raises(kind) as raised:
        await models.list_models()

    assert KEY not in str(raised.value)


@pytest.mark.parametrize("answer", [[], {}, {"data": None}, {"data": {"a": 1}}, None, 5])
async def test_a_list_of_another_shape_is_empty(serve: Serve, answer: Any) -> None:
    assert await (await serve("openai", answer)).list_models() == []


async def test_a_list_after_a_byte_order_mark_is_read(serve: Serve) -> None:
    models = await serve("mine", b'\xef\xbb\xbf{"data": [{"id": "m"}]}')

    assert [info.name for info in await models.list_models()] == ["mine:m"]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("google", {"models": [{"name": "models/x", "supportedGenerationMethods": 5}]}),
        ("openrouter", {"data": [{"id": "a/b", "architecture": {"output_modalities": 5}}]}),
        ("anthropic", {"data": [{"id": "c", "capabilities": 5, "max_input_tokens": "many"}]}),
        ("mine", {"data": [{"id": "m", "meta": 5, "max_model_len": "long"}]}),
    ],
)
async def test_facts_of_another_shape_break_no_list(serve: Serve, name: str, answer: Any) -> None:
    for info in await (await serve(name, answer)).list_models():
        assert info.context_length is None


async def test_what_was_told_is_believed_for_ten_minutes(
    serve: Serve,
) -> None:
    asked: list[Any] = []
    vendor = (await serve("openai", {"id": "gpt-5.1"}, asked=asked)).vendor
    now = [1000.0]
    async with open_client(vendor, silence_timeout=30) as client:
        models = VendorInventory(vendor, KEY, client, clock=lambda: now[0])
        await models.describe("gpt-5.1")
        now[0] += CACHE_SECONDS
        await models.describe("gpt-5.1")
        assert len(asked) == 1

        now[0] += 1

        assert models.recall("gpt-5.1") is None
        await models.describe("gpt-5.1")
        assert len(asked) == 2


async def test_a_name_is_no_way_to_another_path(serve: Serve) -> None:
    asked: list[Any] = []
    models = await serve("openai", {"id": "x"}, asked=asked)

    await models.describe("../files?x=1#y")

    assert asked[0][0] == "/models/..%2Ffiles%3Fx%3D1%23y"


async def test_a_vendor_that_is_not_there_is_a_network_error() -> None:
    vendor = make_vendor("openai", base_url="http://127.0.0.1:9/v1", key_variable=None)

    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:9"):
        await VendorLanguageModel(vendor).list_models()
