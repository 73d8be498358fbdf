"""The chat page over HTTP."""

from pathlib import Path

import pytest
from django.test import AsyncClient
from django.urls import reverse
from pytest_django.fixtures import Settings

from mochi_project.chat_page import CONTENT_TYPES, read
from mochi_project.configuration.loading import MochiSettings

ROOT = reverse("chat-page")
FILES = {name: read(name) for name in CONTENT_TYPES}


@pytest.fixture
def on(settings: Settings, tmp_path: Path) -> None:
    settings.MOCHI = MochiSettings(data_dir=tmp_path, playground=True)


@pytest.fixture
def off(settings: Settings, tmp_path: Path) -> None:
    settings.MOCHI = MochiSettings(data_dir=tmp_path, playground=False)


@pytest.mark.usefixtures("on")
async def test_the_page_is_at_the_root() -> None:
    answer = await AsyncClient().get(ROOT)

    assert (answer.status_code, answer.content) == (200, FILES["index.html"])
    assert "unsafe-inline" not in answer["Content-Security-Policy"]
    assert "require-trusted-types-for 'script'" in answer["Content-Security-Policy"]
    assert answer["X-DNS-Prefetch-Control"] == "off"


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize("name", CONTENT_TYPES)
async def test_every_file_has_its_type_and_is_checked_for_a_newer_one(name: str) -> None:
    answer = await AsyncClient().get(f"/{name}")

    assert (answer.status_code, answer.content) == (200, FILES[name])
    assert (answer["Content-Type"], answer["Cache-Control"]) == (CONTENT_TYPES[name], "no-cache")


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize("path", [ROOT, "/vendor/katex.js"])
async def test_a_file_that_a_browser_has_is_not_sent_again(path: str) -> None:
    etag = (await AsyncClient().get(path))["ETag"]

    answer = await AsyncClient().get(path, headers={"If-None-Match": etag})

    assert (answer.status_code, answer.content) == (304, b"")
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert answer["X-DNS-Prefetch-Control"] == "off"
    assert (await AsyncClient().get(path, headers={"If-None-Match": '"old"'})).status_code == 200


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize("path", [ROOT, "/app.js"])
async def test_other_methods_are_refused(path: str) -> None:
    assert (await AsyncClient().head(path)).status_code == 200
    assert (await AsyncClient().post(path)).status_code == 405


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/chat_page.py", "/app.js/", "/..%2fcli.py"])
async def test_nothing_else_is_there(path: str) -> None:
    assert (await AsyncClient().get(path)).status_code == 404


@pytest.mark.usefixtures("off")
async def test_where_it_is_switched_off_the_root_leads_to_the_docs() -> None:
    answer = await AsyncClient().get(ROOT)

    assert (answer.status_code, answer["Location"]) == (302, "/api/v1/docs")
    assert (await AsyncClient().get("/app.js")).status_code == 404


@pytest.mark.parametrize(
    ("chosen", "served"),
    [
        ({"host": "127.0.0.1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "0.0.0.0", "test_mode": True}, True),
        ({"host": "0.0.0.0", "playground": True}, True),
        ({"host": "127.0.0.1", "playground": False}, False),
    ],
)
def test_unless_said_it_is_served_in_test_mode_and_on_loopback(
    chosen: dict[str, object], served: bool
) -> None:
    assert MochiSettings.model_validate(chosen).serves_playground is served
