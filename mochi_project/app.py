"""Declares what an app plugs into the server, and finds the services of all apps by their types.

This module imports no app, so that all of them can import it (docs/decisions/0133).
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from django.apps import AppConfig, apps
from django.conf import settings
from django.utils.module_loading import module_has_submodule

from mochi_project.principal import DEFAULT_OWNER, is_acted_for, principal

Service = TypeVar("Service")


logger = logging.getLogger(__name__)


class ServiceMissing(LookupError):
    """No app that is installed provides a service of this type."""


class Services:
    """Makes each service when it is first asked for, and closes what was made.

    Safe to use from several threads. A factory asks for what its service needs, so that services
    close before those that they use.

    Args:
        factories: Makes the service of each type.
        shared: Has the other services, whose factories can't ask for these.

    Attributes:
        used_at: The monotonic time at which somebody last asked the pool for them.
    """

    def __init__(
        self, factories: "Mapping[type | str, Factory]", shared: "Services | None" = None
    ) -> None:
        self._factories = factories
        self._shared = shared
        self._made: dict[type, Any] = {}
        self.used_at = time.monotonic()
        self._closing = AsyncExitStack()
        self._lock = threading.RLock()

    def get(self, kind: type[Service]) -> Service:
        """Return the service of a type.

        Raises:
            ServiceMissing: No app provides it.
        """
        made = self._made.get(kind)
        return self._make(kind) if made is None else cast("Service", made)

    def made(self, kind: type[Service]) -> Service | None:
        """Return the service of a type if somebody asked for it before."""
        return cast("Service | None", self._made.get(kind))

    def _make(self, kind: type[Service]) -> Service:
        with self._lock:
            if kind not in self._made:
                name = f"{kind.__module__}.{kind.__qualname__}"
                factory = self._factories.get(kind) or self._factories.get(name)
                if factory is not None:
                    self._made[kind] = factory(self)
                elif self._shared is not None:
                    self._made[kind] = self._shared.get(kind)
                else:
                    raise ServiceMissing(f"no app that is installed provides {name}")
            return cast("Service", self._made[kind])

    def on_close(self, close: Callable[[], Awaitable[object]]) -> None:
        """Have ``close`` called when the services close, before what was made earlier."""
        self._closing.push_async_callback(close)

    async def aclose(self) -> None:
        """Close everything that was made, the last first, whatever the others raise."""
        await self._closing.aclose()


Factory = Callable[[Services], object]
Factories = Mapping[type | str, Factory]

MOST_OWNERS = 256
"""The owners whose services a process keeps, some 80 KiB each; more if more are in use."""

_pool: "ServicePool | None" = None
_building = threading.Lock()


class ForeignApi(NamedTuple):
    """An API of an app beside the native one, with paths and a format of errors of its own.

    Attributes:
        prefix: The path above all its routes, such as ``/v1``.
        namespace: The namespace of its URL names.
        routers: Its routers, as ``module:name``.
        module: The module with its ``urlpatterns``, imported late, and with ``openapi_schema`` if
            the OpenAPI document describes it.
        errors: The function that makes its errors, as ``module:name``.
        errors_below: The functions for paths of another protocol below it.
        errors_with: The functions for clients of another protocol, by a header that they send.
        setting: The setting that switches it on; empty if it is always there.
    """

    prefix: str
    namespace: str
    routers: Sequence[str]
    module: str
    errors: str
    errors_below: Mapping[str, str] = MappingProxyType({})
    errors_with: Mapping[str, str] = MappingProxyType({})
    setting: str = ""

    @property
    def is_on(self) -> bool:
        """Return whether it is switched on."""
        return not self.setting or bool(getattr(settings.MOCHI, self.setting))

    def is_off_at(self, path: str) -> bool:
        """Return whether a path would be of this API if it were on."""
        return not self.is_on and self.has(path)

    def has(self, path: str) -> bool:
        """Return whether a path is of this API."""
        return path.startswith(self.prefix) and path[len(self.prefix) :][:1] in {"", "/"}


class MochiApp(AppConfig):
    """Describes an app of the server: the base of the class in each ``apps.py``.

    What an app plugs in is named by its dotted path, and imported when it is used.

    Attributes:
        routers: The routers of its routes below ``/api/v1``, as ``module:name``.
        apis: Its APIs beside that one.
        components: The functions that return components of the OpenAPI document to which its
            routes refer, as ``module:name``.
        statuses: The HTTP statuses of the codes of its errors.
        retry_after: The seconds after which a request may succeed, of codes that say so.
        error_rules: Patterns for "METHOD path" of its routes, with the codes of their errors.
        unfinished: Folders below an owner's, each with the ending of the names in it that show that
            something is unfinished after a death.
        session_actions: The classes of the actions that it adds to ``mochi-server sessions``, as
            ``module:name``.
    """

    default = False
    routers: Sequence[str] = ()
    apis: Sequence[ForeignApi] = ()
    components: Sequence[str] = ()
    statuses: Mapping[str, int] = MappingProxyType({})
    retry_after: Mapping[str, int] = MappingProxyType({})
    error_rules: Sequence[tuple[str, str]] = ()
    unfinished: Mapping[str, str] = MappingProxyType({})
    session_actions: Sequence[str] = ()

    def __init_subclass__(cls) -> None:
        """Have Django choose the subclass of the two classes that it finds in an ``apps.py``."""
        cls.default = True

    def factories(self, configuration: Any) -> tuple[Factories, Factories]:  # noqa: ARG002 - of some
        """Return the factories of services that all owners share, and of those of one owner.

        They are ``FACTORIES`` and ``OWNED`` of its ``services.py``.
        """
        if not module_has_submodule(self.module, "services"):
            return {}, {}
        module = import_module(f"{self.name}.services")
        return getattr(module, "FACTORIES", {}), getattr(module, "OWNED", {})

    def wrapped(self, application: Any, configuration: Any) -> Any:  # noqa: ARG002 - of some
        """Return the ASGI application with the app's own middleware around it, if it has any."""
        return application

    async def findings(self, services: Services) -> Sequence[Any]:  # noqa: ARG002 - of some
        """Return what ``mochi-server doctor`` reports of the app, each a ``Finding``."""
        return ()

    def kept_files(self, configuration: Any) -> Mapping[str, Path]:  # noqa: ARG002 - of some
        """Return the files and directories of the app that a backup keeps, each by its name."""
        return {}

    def in_use(self, services: Services) -> bool:  # noqa: ARG002 - of some
        """Return whether something of the app runs in an owner's services, so that they stay."""
        return False

    def chores(self, services: Services) -> Mapping[str, Callable[[], object]]:  # noqa: ARG002 - of some
        """Return what the housekeeper does each minute for an owner, each by its name."""
        return {}

    def shared_chores(self, services: Services) -> Mapping[str, Callable[[], object]]:  # noqa: ARG002 - of some
        """Return what it does each minute for the whole process, with the shared services."""
        return {}

    def shared_urgent_chores(self, services: Services) -> Mapping[str, Callable[[], object]]:  # noqa: ARG002 - of some
        """Return what it does each second for the whole process, almost free, too."""
        return {}

    def urgent_chores(self, services: Services) -> Mapping[str, Callable[[], object]]:  # noqa: ARG002 - of some
        """Return what it does each second for an owner, almost free when there is nothing to do."""
        return {}


def mochi_apps() -> list[MochiApp]:
    """Return the installed apps of the server, in the order of ``INSTALLED_APPS``."""
    return [app for app in apps.get_app_configs() if isinstance(app, MochiApp)]


def routers_of(names: Sequence[str]) -> Iterator[Any]:
    """Yield the routers with these names, and import their modules."""
    return map(resolve_name, names)


def foreign_apis() -> list[ForeignApi]:
    """Return the APIs of the installed apps beside the native one, but for those that are off."""
    return [api for api in declared_apis() if api.is_on]


def declared_apis() -> list[ForeignApi]:
    """Return the APIs of the installed apps beside the native one, also those that are off."""
    return [api for app in mochi_apps() for api in app.apis]


class ServicePool:
    """Keeps the services of the owners that are in use, over those that all of them share.

    Opens nothing: clients connect on first use (docs/decisions/0148). Safe to use from several
    threads.

    Args:
        configuration: The settings of the server, of which each owner has those with own paths.
        most: How many owners' services are kept: beyond it, those go that were used longest ago
            and that no app says are in use (docs/decisions/0203).

    Attributes:
        shared: The services that all owners share, the pool among them.
        when_loaded: Called in any thread with the services of an owner before they are used.
    """

    def __init__(self, configuration: Any, *, most: int = MOST_OWNERS) -> None:
        self._configuration = configuration
        self._most = most
        self._started = time.monotonic()
        self._owned: dict[type | str, Factory] = {}
        factories = {ServicePool: lambda _: self, **_constant(configuration)}
        for app in mochi_apps():
            shared_of_app, owned_of_app = app.factories(configuration)
            factories |= shared_of_app
            self._owned |= owned_of_app
        self.shared = Services(factories)
        self.when_loaded: Callable[[Services], object] | None = None
        self._loaded: dict[str, Services] = {}
        self._lock = threading.RLock()
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, owner: str) -> Services:
        """Return the services of an owner, loading them if they are not there."""
        services = self._loaded.get(owner) or self._load(owner)
        services.used_at = time.monotonic()
        return services

    def until(self, seconds: float) -> float:
        """Return the time that is left of so many seconds from the start of the pool."""
        return max(0.0, self._started + seconds - time.monotonic())

    def build(self, owner: str) -> Services:
        """Return services of an owner that the pool does not keep, to look at his data."""
        configuration = self._configuration.for_owner(owner)
        return Services({**_constant(configuration), **self._owned}, self.shared)

    def loaded(self) -> Mapping[str, Services]:
        """Return the services that there are, by their owners."""
        with self._lock:
            return dict(self._loaded)

    def trim(self) -> None:
        """Drop services beyond the bound that nobody uses, and close them in a task.

        Does nothing in a thread without an event loop: whoever has one comes by.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        while len(self._loaded) > self._most:
            loaded = self.loaded()
            if not any(map(self.release, sorted(loaded, key=lambda each: loaded[each].used_at))):
                return

    def release(self, owner: str) -> bool:
        """Drop an owner's services if nobody uses them, and close them in a task; on the loop."""
        services = self._drop(owner)
        if services is None:
            return False
        task = asyncio.create_task(services.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closed)
        return True

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the services of an owner could not be closed", exc_info=error)

    async def aclose(self) -> None:
        """Close the services of all owners and then the shared ones, whatever they raise."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.shared.aclose)
            every = [each.aclose() for each in self.loaded().values()]
            failures = await asyncio.gather(*self._closing, *every, return_exceptions=True)
            for failure in failures:
                if isinstance(failure, BaseException):
                    raise failure

    def _load(self, owner: str) -> Services:
        with self._lock:  # or two threads would each have their own
            services = self._loaded.get(owner)
            if services is None:
                services = self.build(owner)
                if self.when_loaded is not None:
                    self.when_loaded(services)
                self._loaded[owner] = services
        self.trim()
        return services

    def _drop(self, owner: str) -> Services | None:
        """Take an owner's services out and return them; None if they are in use."""
        if owner == DEFAULT_OWNER:  # its turns are looked for all the time
            return None
        with self._lock:
            services = self._loaded.pop(owner, None)
            if services is None:
                return None
            # Who begins to act for the owner now waits for the lock; who did before is seen.
            if is_acted_for(owner) or any(app.in_use(services) for app in mochi_apps()):
                self._loaded[owner] = services
                return None
            return services


def _constant(configuration: Any) -> dict[type | str, Factory]:
    """Return the factories of settings; each app asks for a base of the class of the whole."""
    return dict.fromkeys(type(configuration).__mro__, lambda _: configuration)


def build_services(configuration: Any, owner: str = DEFAULT_OWNER) -> Services:
    """Return the services of an owner for a process of their own; they close the shared ones."""
    pool = ServicePool(configuration)
    services = pool.of(owner)
    services.on_close(pool.shared.aclose)
    return services


def current_services() -> Services:
    """Return the services of the owner that the running code acts for.

    Raises:
        LookupError: It acts for nobody.
    """
    return current_pool().of(principal().owner)


def current_pool() -> ServicePool:
    """Return this process's services by their owners, making the pool on first use."""
    global _pool  # noqa: PLW0603 - one pool per process
    if (pool := _pool) is not None:
        return pool
    with _building:  # or two threads would each have their own
        if _pool is None:
            _pool = ServicePool(settings.MOCHI)
        return _pool


def install_pool(pool: ServicePool | None) -> None:
    """Set the process's services (for the lifespan and tests); None removes them."""
    global _pool  # noqa: PLW0603 - one pool per process
    _pool = pool


def service(kind: type[Service]) -> Service:
    """Return a service of the owner that the running code acts for, or one that all share."""
    return current_services().get(kind)


def shared_service(kind: type[Service]) -> Service:
    """Return a service that all owners share, also where the running code acts for nobody."""
    return current_pool().shared.get(kind)
