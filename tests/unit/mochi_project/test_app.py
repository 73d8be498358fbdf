"""Services are made once, when they are asked for, and closed in the reverse order."""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from mochi_project.app import (
    ServiceMissing,
    Services,
    build_services,
    current_services,
    install_services,
    mochi_apps,
)
from mochi_project.configuration.loading import MochiSettings
from tests.services import services_of


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


def test_the_services_of_a_process_are_built_once_however_many_threads_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built, all_at_once, others = list[Services](), threading.Barrier(8), threading.Event()

    def build(_: object) -> Services:
        others.wait(timeout=0.1)  # which another thread would use to build, too
        built.append(services_of({}))
        return built[-1]

    monkeypatch.setattr("mochi_project.app.build_services", build)
    install_services(None)

    def ask() -> Services:
        all_at_once.wait(30)
        return current_services()

    try:
        with ThreadPoolExecutor(8) as pool:
            answers = [work.result() for work in [pool.submit(ask) for _ in range(8)]]
    finally:
        install_services(None)

    assert answers == built * 8
