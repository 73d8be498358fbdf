"""A vendor's server, and models that talk to it without waiting between tries."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import make_vendor
from tests.unit.models_app.vendors.fake_vendor import FakeVendor, running

OpenVendor = Callable[..., VendorLanguageModel]


@pytest.fixture
async def fake() -> AsyncIterator[FakeVendor]:
    async with running(FakeVendor()) as fake:
        yield fake


@pytest.fixture
async def open_vendor(
    fake: FakeVendor, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenVendor]:
    """Open a provider's models on the server; ``path`` is that of its address."""
    monkeypatch.setattr("models_app.retries.BACKOFFS", ((0, 0.01), (0, 0.01)))
    opened: list[VendorLanguageModel] = []

    def open_vendor(name: str = "openai", path: str = "/v1", **more: Any) -> VendorLanguageModel:
        vendor = make_vendor(name, base_url=fake.url + path, key_variable="SOME_KEY", **more)
        opened.append(VendorLanguageModel(vendor, key_of={"SOME_KEY": "sk-0123456789abc"}.get))
        return opened[-1]

    yield open_vendor
    for model in opened:
        await model.aclose()
