"""Turns are limited by the owner of a key, and by the address of whom has none."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.http import HttpRequest

from chat.settings import ChatSettings
from mochi_project.configuration.config import ServerSettings
from mochi_project.configuration.loading import load_settings
from mochi_project.http.clients import client_of
from mochi_project.principal import SCOPES, Principal, acting_for
from tests.services import SharedByAll, services_of

SCOPE = {"client": ("192.0.2.1", 1234), "headers": []}


@pytest.fixture(params=[3])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    settings = load_settings(max_turns_per_client=request.param)
    services = services_of({ChatSettings: settings, ServerSettings: settings})
    monkeypatch.setattr("mochi_project.app._pool", SharedByAll(services))
    return request.param


def client(principal: Any) -> str | None:
    with acting_for(principal):
        return client_of(cast("HttpRequest", SimpleNamespace(scope=SCOPE)))


@pytest.mark.usefixtures("limit")
def test_turns_count_for_an_owner_whatever_his_keys() -> None:
    phone = Principal("anna", SCOPES, "k0000000a")
    laptop = Principal("anna", SCOPES, "k0000000b")
    of_proxy = Principal("anna", SCOPES)

    assert client(phone) == client(laptop) == client(of_proxy) == "key:anna"
    assert client("bob") == "key:bob"
    assert client(Principal("default", SCOPES, "k0000000c")) == "key:default"


@pytest.mark.usefixtures("limit")
def test_turns_without_a_key_count_for_an_address() -> None:
    assert client("default") == "192.0.2.1"


@pytest.mark.parametrize("limit", [0], indirect=True)
@pytest.mark.usefixtures("limit")
def test_without_a_limit_nobody_is_counted() -> None:
    assert client("anna") is None
