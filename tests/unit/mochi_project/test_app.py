"""Services are made once, when they are asked for, and closed in the reverse order."""

import asyncio
import gc
import threading
import tracemalloc
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial
from pathlib import Path

import pytest

import chat
from chat.service import ChatService
from mochi_project.app import (
    Factories,
    MochiApp,
    ServiceMissing,
    ServicePool,
    Services,
    build_services,
    current_services,
    install_pool,
    mochi_apps,
)
from mochi_project.configuration.loading import MochiSettings, load_settings
from mochi_project.principal import InvalidOwner, acting_for
from sessions_app.service import SessionManager
from tests.services import services_of
from tools_app.mcp.toolset import McpTools


class Disk:
    """A service that another one uses."""


class Sessions:
    """A service that uses the disk."""


def closing(closed: list[str], failing: Iterable[str] = ()) -> Services:
    """Return services that note who was closed."""

    async def close(name: str) -> None:
        closed.append(name)
        if name in failing:
            raise ConnectionError(name)

    def disk(services: Services) -> Disk:
        services.on_close(partial(close, "disk"))
        return Disk()

    def sessions(services: Services) -> Sessions:
        services.get(Disk)
        services.on_close(partial(close, "sessions"))
        return Sessions()

    return Services({Disk: disk, Sessions: sessions})


def test_a_service_is_made_once_however_many_threads_ask_for_it() -> None:
    made, all_at_once = [], threading.Barrier(8)

    def make(_: Services) -> Disk:
        made.append(Disk())
        return made[-1]

    services = Services({Disk: make})

    def ask() -> Disk:
        all_at_once.wait(30)
        return services.get(Disk)

    with ThreadPoolExecutor(8) as pool:
        answers = [work.result() for work in [pool.submit(ask) for _ in range(8)]]

    assert answers == made * 8


async def test_what_uses_a_service_is_closed_before_it() -> None:
    closed: list[str] = []
    services = closing(closed)
    services.get(Sessions)

    await services.aclose()

    assert closed == ["sessions", "disk"]


async def test_what_was_not_made_is_not_closed() -> None:
    closed: list[str] = []

    await closing(closed).aclose()

    assert closed == []


async def test_a_service_that_fails_to_close_keeps_no_other_from_closing() -> None:
    closed: list[str] = []
    services = closing(closed, failing=["sessions"])
    services.get(Sessions)

    with pytest.raises(ConnectionError):
        await services.aclose()

    assert closed == ["sessions", "disk"]


def test_a_service_that_no_app_provides_is_named() -> None:
    with pytest.raises(ServiceMissing, match=r"provides tests\..*\.Disk$"):
        services_of({}).get(Disk)


def test_a_service_whose_module_is_not_imported_is_found_by_its_name() -> None:
    name = f"{Disk.__module__}.{Disk.__qualname__}"

    assert isinstance(Services({name: lambda _: Disk()}).get(Disk), Disk)


def test_the_configuration_is_a_service_and_each_app_is_listed_once() -> None:
    settings = MochiSettings()

    assert build_services(settings).get(MochiSettings) is settings
    names = [app.name for app in mochi_apps()]
    assert len(names) == len(set(names)) > 10


def test_an_owner_has_the_shared_services_too() -> None:
    shared = services_of({Disk: Disk()})

    assert Services({}, shared).get(Disk) is shared.get(Disk)


def test_a_shared_service_can_not_use_one_of_an_owner() -> None:
    shared = Services({Sessions: lambda services: services.get(Disk)})

    with pytest.raises(ServiceMissing, match=r"Disk$"):
        Services({Disk: lambda _: Disk()}, shared).get(Sessions)


def test_the_services_of_an_owner_are_built_once_however_many_threads_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built, all_at_once, others = list[object](), threading.Barrier(8), threading.Event()

    def factories(_app: MochiApp, configuration: object) -> tuple[Factories, Factories]:
        others.wait(timeout=0.1)  # which another thread would use to build, too
        built.append(configuration)
        return {}, {}

    monkeypatch.setattr("mochi_project.app.mochi_apps", lambda: [MochiApp("chat", chat)])
    monkeypatch.setattr(MochiApp, "factories", factories)
    install_pool(None)

    def ask() -> Services:
        all_at_once.wait(30)
        with acting_for("anna"):
            return current_services()

    try:
        with ThreadPoolExecutor(8) as pool:
            answers = [work.result() for work in [pool.submit(ask) for _ in range(8)]]
    finally:
        install_pool(None)

    assert len(built) == 1
    assert answers == answers[:1] * 8


def pool_of(most: int = 256) -> ServicePool:
    return ServicePool(MochiSettings(), most=most)


def test_each_owner_has_services_of_his_own_over_the_same_shared_ones() -> None:
    pool = pool_of()
    anna, bob = pool.of("anna"), pool.of("bob")
    assert pool.of("anna") is anna
    assert anna.get(SessionManager) is not bob.get(SessionManager)
    assert anna.get(McpTools) is bob.get(McpTools) is pool.shared.get(McpTools)


def test_an_owner_who_is_none_has_no_services() -> None:
    with pytest.raises(InvalidOwner):
        pool_of().of("../anna")


async def test_those_used_longest_ago_go_first() -> None:
    pool = pool_of(most=2)
    for owner in ("anna", "bob", "anna", "carl"):
        pool.of(owner)
    assert set(pool.loaded()) == {"anna", "carl"}
    await pool.aclose()


async def test_the_default_owners_services_stay() -> None:
    pool = pool_of(most=2)
    for owner in ("default", "anna", "bob"):
        pool.of(owner)
    assert set(pool.loaded()) == {"default", "bob"}
    assert not pool.release("default")
    await pool.aclose()


async def test_what_is_dropped_is_closed() -> None:
    pool, closed = pool_of(most=1), asyncio.Event()

    async def close() -> None:
        closed.set()

    pool.of("anna").on_close(close)
    pool.of("bob")
    async with asyncio.timeout(30):
        await closed.wait()


async def test_services_stay_while_somebody_acts_for_their_owner() -> None:
    pool = pool_of(most=1)
    with acting_for("anna"):
        anna = pool.of("anna")
        pool.of("bob")
        assert pool.of("anna") is anna
    pool.of("carl")
    assert "anna" not in pool.loaded()
    await pool.aclose()


async def test_services_stay_while_an_app_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pool_of(most=1)
    anna = pool.of("anna")
    monkeypatch.setattr(MochiApp, "in_use", lambda _app, services: services is anna)
    pool.of("bob")
    pool.of("carl")
    assert set(pool.loaded()) >= {"anna"}
    assert not pool.release("anna")
    monkeypatch.undo()
    assert pool.release("anna")
    await pool.aclose()


@pytest.mark.allow_blocking  # of the settings
async def test_nothing_keeps_what_was_dropped(tmp_path: Path) -> None:
    pool = ServicePool(load_settings(data_dir=tmp_path))
    pool.when_loaded = lambda services: services.get(ChatService).go_on(loop)
    loop = asyncio.get_running_loop()
    dropped = weakref.ref(pool.of("anna").get(ChatService))
    assert pool.release("anna")
    async with asyncio.timeout(30):
        while dropped() is not None:
            await asyncio.sleep(0.01)
            gc.collect()
    await pool.aclose()


def test_a_thread_drops_nothing_as_it_can_close_nothing() -> None:
    pool = pool_of(most=1)
    pool.of("anna")
    pool.of("bob")
    assert set(pool.loaded()) == {"anna", "bob"}


def test_a_loaded_owner_takes_little_memory() -> None:
    pool = pool_of()
    pool.when_loaded = lambda services: services.get(ChatService)
    pool.of("first")
    tracemalloc.start()
    try:
        for number in range(20):
            pool.of(f"owner-{number}")
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / 20 < 160 * 1024  # some 80 KiB


def test_code_that_acts_for_nobody_has_no_services() -> None:
    with pytest.raises(LookupError):
        Context().run(current_services)
