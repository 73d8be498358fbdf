"""A vendor is one class: everything that the rest needs to know of its API is asked of it."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web

from models_app.language_model import ModelRequest
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.vendor import ModelFacts, Vendor


class Acme(Vendor, frozen=True, kw_only=True):
    """An API that is like no other."""

    list_path = "/catalogue"
    model_path = "/catalogue/{}"

    name: str = "acme"
    base_url: str = "https://acme.example"
    key_variables: tuple[str, ...] = ("ACME_KEY",)

    def headers(self, key: str | None) -> dict[str, str]:
        return {"x-acme": str(key)}

    def facts(self, item: Mapping[str, Any]) -> ModelFacts:
        return ModelFacts(("completion",), item["tokens"])

    def sampling_settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"acme_spice": options["spice"]}


@pytest.fixture
async def acme() -> AsyncIterator[Acme]:
    async def handle(request: web.Request) -> web.Response:
        if request.headers.get("x-acme") != "canary":
            return web.json_response({"error": "no key"}, status=401)
        model = {"id": "anvil", "tokens": 512}
        return web.json_response({"data": [model]} if request.path == "/catalogue" else model)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield Acme(base_url=f"http://127.0.0.1:{runner.addresses[0][1]}")
    await runner.cleanup()


async def test_a_new_vendor_needs_nothing_but_its_class(acme: Acme) -> None:
    models = VendorLanguageModel(acme, key_of={"ACME_KEY": "canary"}.get)

    (listed,) = await models.list_models()
    described = await models.describe("anvil")
    await models.aclose()

    assert listed == described
    assert (listed.name, listed.provider, listed.context_length) == ("acme:anvil", "acme", 512)
    assert tuple(listed.capabilities) == ("completion",)


def test_settings_are_the_common_ones_and_the_vendors_own() -> None:
    options = {"temperature": 0.5, "spice": 3, "top_k": 1}

    settings = Acme().settings(
        ModelRequest(model="anvil", messages=[], think=True, options=options)
    )

    assert settings == {"temperature": 0.5, "acme_spice": 3, "thinking": True}


def test_a_vendor_at_another_address_is_another_value() -> None:
    assert Acme() == Acme()
    assert Acme(base_url="https://elsewhere.example") != Acme()
    assert len({Acme(), Acme(), Acme(key_variables=())}) == 2
