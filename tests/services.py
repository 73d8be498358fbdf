"""Services of a test's own, in the place of those of the configuration."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from mochi_project.app import ServicePool, Services, install_pool
from mochi_project.background.housekeeping import Chore, Chores, Housekeeper
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.principal import DEFAULT_OWNER


def services_of(values: Mapping[type, Any]) -> Services:
    """Return services that are these values, and no others; settings are of all their apps."""
    kinds = {
        kind: value
        for given, value in values.items()
        for kind in (type(value).__mro__ if isinstance(value, AppSettings) else (given,))
    }
    return Services({kind: lambda _, value=value: value for kind, value in kinds.items()})


class OneOwner(ServicePool):
    """Has services of one owner that the test made, as shared ones, too."""

    def __init__(self, services: Services, owner: str = DEFAULT_OWNER) -> None:
        self.shared = services
        self._owner = owner

    def of(self, owner: str) -> Services:
        """Return them, if they are this owner's."""
        if owner != self._owner:
            raise LookupError(owner)
        return self.shared

    def loaded(self) -> Mapping[str, Services]:
        """Return them."""
        return {self._owner: self.shared}


class SharedByAll(OneOwner):
    """Has services that all owners share, made by the test."""

    def of(self, owner: str) -> Services:
        """Return them."""
        return self.shared


def install_services(services: Services | None) -> None:
    """Have routes and commands use these services; None removes them."""
    install_pool(None if services is None else OneOwner(services))


async def do_chores(services: Services, is_done: Callable[[], bool]) -> None:
    """Have every chore of an owner done, until what is expected of them is."""
    done = threading.Event()
    of_owner = await asyncio.to_thread(services.get, Chores)
    cast("dict[str, Chore]", of_owner.regular)["the last one"] = done.set
    chores = asyncio.create_task((await asyncio.to_thread(services.get, Housekeeper)).run())
    try:
        async with asyncio.timeout(30):
            while not (done.is_set() and is_done()):
                await asyncio.sleep(0.01)
    finally:
        chores.cancel()
        with suppress(asyncio.CancelledError):  # its end stops what another one would do
            await chores
