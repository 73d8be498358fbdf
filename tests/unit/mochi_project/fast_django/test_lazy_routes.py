"""The routes come after the server listens: what is answered meanwhile, and what waits."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mochi_project.configuration.config import load_settings
from mochi_project.fast_django import lazy_routes
from mochi_project.fast_django.lazy_routes import LateRoutes
from mochi_project.wiring.services import build_services, install_services

HEALTH = "/api/v1/health"


@pytest.fixture(autouse=True)
def _services(tmp_path: Path) -> Iterator[None]:
    nobody = "http://127.0.0.1:9"
    install_services(build_services(load_settings(data_dir=tmp_path, ollama_host=nobody)))
    yield
    install_services(None)


def client_of(routes: LateRoutes) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=routes), base_url="http://127.0.0.1")


async def test_the_first_health_is_the_same_as_any_later() -> None:
    routes = LateRoutes()
    async with client_of(routes) as client:
        early = await client.get(HEALTH)
        await routes.make()
        late = await client.get(HEALTH)

    assert early.status_code == late.status_code == 200
    assert early.json() == late.json()
    assert early.headers == late.headers


@pytest.mark.parametrize("request_line", ["GET /api/v1/prompts/", "POST /api/v1/health", "HEAD /"])
async def test_what_is_not_the_health_waits_for_its_route(request_line: str) -> None:
    method, path = request_line.split()
    async with client_of(LateRoutes()) as early, client_of(await made()) as late:
        answers = [await client.request(method, path) for client in (early, late)]

    assert answers[0].status_code == answers[1].status_code
    assert answers[0].content == answers[1].content


async def test_one_that_stops_waiting_takes_nobody_along() -> None:
    async with client_of(LateRoutes()) as client:
        leaving = asyncio.create_task(client.get("/nowhere"))
        staying = asyncio.create_task(client.get("/nowhere"))
        await asyncio.sleep(0)
        leaving.cancel()

        assert (await staying).status_code == 404


async def test_routes_that_can_not_be_made_are_bad_health(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> None:
        raise ImportError("a part is missing")

    monkeypatch.setattr(lazy_routes, "_make", make)
    routes = LateRoutes()
    async with client_of(routes) as client:
        with pytest.raises(ImportError):
            await routes.make()
        with pytest.raises(ImportError):
            await client.get(HEALTH)


async def made() -> LateRoutes:
    routes = LateRoutes()
    await routes.make()
    return routes
