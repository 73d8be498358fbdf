"""Services of a test's own, in the place of those of the configuration."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from mochi_project.app import Services
from mochi_project.background.housekeeping import Housekeeper
from mochi_project.configuration.app_settings import AppSettings


def services_of(values: Mapping[type, Any]) -> Services:
    """Return services that are these values, and no others; settings are of all their apps."""
    kinds = {
        kind: value
        for given, value in values.items()
        for kind in (type(value).__mro__ if isinstance(value, AppSettings) else (given,))
    }
    return Services({kind: lambda _, value=value: value for kind, value in kinds.items()})


async def do_chores(services: Services, is_done: Callable[[], bool]) -> None:
    """Have every chore done, until what is expected of them is."""
    done = threading.Event()
    services.get(Housekeeper).add("the last one", done.set)
    chores = asyncio.create_task((await asyncio.to_thread(services.get, Housekeeper)).run())
    try:
        async with asyncio.timeout(30):
            while not (done.is_set() and is_done()):
                await asyncio.sleep(0.01)
    finally:
        chores.cancel()
