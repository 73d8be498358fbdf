"""Declares what an app plugs into the server, and finds the services of all apps by their types.

This module imports no app, so that all of them can import it (docs/decisions/0133).
"""

import threading
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

Service = TypeVar("Service")


class ServiceMissing(LookupError):
    """No app that is installed provides a service of this type."""


class Services:
    """Makes each service when it is first asked for, and closes what was made.

    Safe to use from several threads. A factory asks for what its service needs, so that services
    close before those that they use.

    Args:
        factories: Makes the service of each type.
        shared: Has the other services, whose factories can't ask for these.
    """

    def __init__(
        self, factories: "Mapping[type | str, Factory]", shared: "Services | None" = None
    ) -> None:
        self._factories = factories
        self._shared = shared
        self._made: dict[type, Any] = {}
        self._closing = AsyncExitStack()
        self._lock = threading.RLock()

    def get(self, kind: type[Service]) -> Service:
        """Return the service of a type.

        Raises:
            ServiceMissing: No app provides it.
        """
        made = self._made.get(kind)
        return self._make(kind) if made is None else cast("Service", made)

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

_current: Services | None = None
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

    def chores(self, services: Services) -> Mapping[str, Callable[[], object]]:  # noqa: ARG002 - of some
        """Return what the housekeeper does each minute in a thread, each by its name."""
        return {}

    def urgent_chores(self, services: Services) -> Mapping[str, Callable[[], object]]:  # noqa: ARG002 - of some
        """Return what it does each second, almost free when there is nothing to do."""
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


def build_services(configuration: object) -> Services:
    """Return the services of the owner of a configuration's data, which include the shared ones.

    Opens nothing: clients connect on first use (docs/decisions/0148).
    """
    # Each app asks for the class of its own settings, one of the bases of the whole.
    classes = type(configuration).__mro__
    factories: dict[type | str, Factory] = dict.fromkeys(classes, lambda _: configuration)
    owned: dict[type | str, Factory] = {}
    for app in mochi_apps():
        shared_of_app, owned_of_app = app.factories(configuration)
        factories |= shared_of_app
        owned |= owned_of_app
    shared = Services(factories)
    services = Services(owned, shared)  # of the one owner: with more, one of these for each
    services.on_close(shared.aclose)
    return services


def current_services() -> Services:
    """Return this process's services, building them on first use."""
    global _current  # noqa: PLW0603 - one container per process
    if (services := _current) is not None:
        return services
    with _building:  # or two threads would each have their own
        if _current is None:
            _current = build_services(settings.MOCHI)
        return _current


def install_services(services: Services | None) -> None:
    """Set the process's services (for the lifespan and tests); None removes them."""
    global _current  # noqa: PLW0603 - one container per process
    _current = services


def service(kind: type[Service]) -> Service:
    """Return this process's service of a type."""
    return current_services().get(kind)
