"""Who a vendor is, where its key is found, and that nobody pays for one that is not used."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from models_app.errors import Unauthorized
from models_app.vendors.compatible import CompatibleServer
from models_app.vendors.registry import KNOWN_VENDORS, make_vendor
from models_app.vendors.vendor import Vendor

ROOT = Path(__file__).parents[4]
HEAVY = ("pydantic_ai", "openai", "anthropic", "google.genai", "httpx2", "mcp")
ONLY_OLLAMA = f"""
import asyncio, sys
from mochi_project.principal import OPERATOR, acting_for
from models_app.catalogue import ModelCatalogue
from models_app.language_model import ModelRequest
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.vendors.registry import KNOWN_VENDORS
from models_app.vendors.language_model import VendorLanguageModel
from scripted_app.server import ScriptedModelServer
from sessions_app.messages import UserMessage

async def main():
    server = ScriptedModelServer(words_per_second=0)
    await server.start()
    vendors = [VendorLanguageModel(vendor, key_of={{}}.get) for vendor in KNOWN_VENDORS]
    catalogue = ModelCatalogue(OllamaLanguageModel(server.url), vendors)
    await catalogue.warm_up()
    assert len((await catalogue.listing()).models) == 3
    assert await catalogue.look_up("openai:gpt-5.1") is None
    model, name = catalogue.resolve("qwen3:14b")
    said = UserMessage(content="Hello", message_id="u", timestamp="t")
    async for batch in model.stream(ModelRequest(model=name, messages=[said])):
        pass
    await catalogue.aclose()
    await server.stop()

with acting_for(OPERATOR):
    asyncio.run(main())
print([name for name in {HEAVY!r} if name in sys.modules])
"""
ONE_VENDOR = f"""
import asyncio, sys
from mochi_project.principal import OPERATOR, acting_for
from models_app.language_model import ModelRequest
from models_app.vendors.registry import make_vendor
from models_app.vendors.language_model import VendorLanguageModel
from scripted_app.server import ScriptedModelServer
from sessions_app.messages import UserMessage

async def main():
    server = ScriptedModelServer(words_per_second=0)
    await server.start()
    model = VendorLanguageModel(make_vendor("mine", base_url=server.url + "/v1", key_variable=None))
    assert len(await model.list_models()) == 3
    print([name for name in {HEAVY!r} if name in sys.modules])
    said = UserMessage(content="Hello", message_id="u", timestamp="t")
    async for batch in model.stream(ModelRequest(model="qwen3:14b", messages=[said])):
        pass
    await model.aclose()
    await server.stop()

with acting_for(OPERATOR):
    asyncio.run(main())
print([name for name in {HEAVY!r} if name in sys.modules])
"""


async def run(code: str) -> list[str]:
    def start() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    ended = await asyncio.to_thread(start)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


async def test_who_uses_ollama_alone_imports_no_vendor() -> None:
    assert await run(ONLY_OLLAMA) == ["[]"]


async def test_a_vendor_is_imported_when_it_is_asked_and_only_that_one() -> None:
    listed, asked = await run(ONE_VENDOR)

    assert listed == "['httpx2']"
    assert asked == "['pydantic_ai', 'openai', 'httpx2']"


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({"GOOGLE_API_KEY": "one", "GEMINI_API_KEY": "two"}, "one"),
        ({"GEMINI_API_KEY": " two\n"}, "two"),
        ({"GOOGLE_API_KEY": "  ", "GEMINI_API_KEY": ""}, None),
        ({}, None),
    ],
)
def test_the_first_variable_that_is_set_holds_the_key(
    environment: dict[str, str], key: str | None
) -> None:
    google = make_vendor("google", base_url=None, key_variable=None)

    assert google.key(environment.get) == key
    assert google.is_configured(environment.get) is (key is not None)


def test_a_missing_key_is_named_and_another_is_not_told() -> None:
    with pytest.raises(Unauthorized) as raised:
        make_vendor("google", base_url=None, key_variable=None).require_key({"X": "canary"}.get)

    error = raised.value
    assert "GOOGLE_API_KEY or GEMINI_API_KEY" in error.message
    assert error.details == {
        "provider": "google",
        "variables": ["GOOGLE_API_KEY", "GEMINI_API_KEY"],
    }
    assert not error.retryable


@pytest.mark.parametrize("key", ["canary-1\ncanary-2", "canary-ключ", "canary\x00"])
def test_a_key_that_no_header_can_hold_is_refused_without_being_told(key: str) -> None:
    with pytest.raises(Unauthorized, match="OPENAI_API_KEY") as raised:
        make_vendor("openai", base_url=None, key_variable=None).require_key(lambda _: key)

    assert "canary" not in repr((raised.value.message, raised.value.details))


def test_a_vendors_usual_key_is_not_sent_to_an_address_of_ones_own() -> None:
    environment = {"OPENAI_API_KEY": "canary", "MY_KEY": "mine"}.get
    moved = make_vendor("openai", base_url="http://proxy.example/v1", key_variable=None)
    named = make_vendor("openai", base_url="http://proxy.example/v1", key_variable="MY_KEY")
    other = make_vendor("openai", base_url=None, key_variable="MY_KEY")

    assert moved.require_key(environment) is None
    assert moved.is_configured({}.get)
    assert named.require_key(environment) == "mine"
    assert (other.base_url, other.key(environment)) == ("https://api.openai.com/v1", "mine")


def test_any_other_name_is_a_compatible_server() -> None:
    mine = make_vendor("mine", base_url="http://localhost:8080/v1", key_variable=None)

    assert isinstance(mine, CompatibleServer)
    assert mine.is_configured({}.get)


@pytest.mark.parametrize(
    ("name", "base_url"),
    [("ollama", "http://x"), ("profile", "http://x"), ("agent", "http://x"), ("mine", None)],
)
def test_what_can_not_be_a_provider_is_refused(name: str, base_url: str | None) -> None:
    with pytest.raises(ValueError, match=name):
        make_vendor(name, base_url=base_url, key_variable=None)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.1:1", True),
        ("http://127.1.2.3", True),
        ("http://[::1]:1", True),
        ("https://api.openai.com/v1", False),
        ("http://localhost.example", False),
        ("http://10.0.0.1", False),
    ],
)
def test_no_proxy_comes_between_two_programs_of_one_machine(url: str, local: bool) -> None:
    assert CompatibleServer(name="x", base_url=url).is_local is local


def test_the_known_vendors_are_the_documented_ones() -> None:
    assert {vendor.name for vendor in KNOWN_VENDORS} == {
        "anthropic",
        "google",
        "openai",
        "openrouter",
    }
    assert all(vendor.base_url.startswith("https://") for vendor in KNOWN_VENDORS)


@pytest.mark.parametrize("vendor", KNOWN_VENDORS, ids=lambda vendor: vendor.name)
def test_a_vendor_is_a_module_that_bears_its_name(vendor: Vendor) -> None:
    assert type(vendor).__module__ == f"models_app.vendors.{vendor.name}"
