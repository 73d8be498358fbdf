"""Declares what routes need, and looks it up by path for the guard (docs/decisions/0134, 0207)."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Literal, NamedTuple, TypedDict, TypeVar, Unpack

import ninja
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve
from ninja.utils import replace_path_param_notation

from mochi_project.app import ForeignApi, foreign_apis, mochi_apps, routers_of
from mochi_project.principal import Scope
from sessions_app.errors import MochiError

View = TypeVar("View", bound=Callable[..., object])
NATIVE = "/api/v1"
UNKNOWN = "unknown-path"
"""The name of the view of all paths where nothing is."""
_DECLARED = "mochi_needs"
_PARAMETER = re.compile(r"<(?:(?P<converter>\w+):)?\w+>")


@dataclass(frozen=True, slots=True)
class Needs:
    """Says what a route needs.

    Attributes:
        scope: What a client must be allowed (docs/keys.md); None where nothing is.
        token: Whether a client must be allowed anything at all; without, the scope does not count.
        body: Whether the guard reads the body, or the route does as it arrives (``stream``), or
            whether it is that of a page's own form and nothing else (``form``).
        limit: The setting with the maximum size of the body.
        untyped: Whether a body without a ``Content-Type``, or with that of a form, as curl sends
            it, is read as JSON.
        too_large: Makes the error of a larger stream, from the maximum.
    """

    scope: Scope | None = "admin"
    token: bool = True
    body: Literal["whole", "stream", "form"] = "whole"
    limit: str = "max_body_bytes"
    untyped: bool = False
    too_large: Callable[[int], MochiError] | None = None


ADMINS = Needs()
NOTHING = Needs(scope=None)


class _Changes(TypedDict, total=False):
    scope: Scope
    token: bool
    body: Literal["whole", "stream", "form"]
    limit: str
    untyped: bool
    too_large: Callable[[int], MochiError]


def needs(**changes: Unpack[_Changes]) -> Callable[[View], View]:
    """Declare what a view needs, where that differs from its router. See ``Needs``."""

    def declare(view: View) -> View:
        vars(view)[_DECLARED] = changes
        return view

    return declare


class Router(ninja.Router):
    """Ninja's router, which says what its routes need if they declare nothing else.

    Args:
        scope: The scope that its routes need: see ``Needs``.
        changes: The scope that those need that are not GET, if it is another one.
        limit: See ``Needs``.
        tags: The tags of its routes in the OpenAPI document.
    """

    def __init__(
        self,
        *,
        scope: Scope = "admin",
        changes: Scope | None = None,
        tags: list[str],
        limit: str = "max_body_bytes",
    ) -> None:
        super().__init__(tags=tags)
        self._reading = Needs(scope=scope, limit=limit)
        self._changing = Needs(scope=changes or scope, limit=limit)

    def needs_of(self, view: Callable[..., object], methods: Iterable[str]) -> Needs:
        """Return what the route of a view needs."""
        usual = self._reading if "GET" in methods else self._changing
        return replace(usual, **vars(view).get(_DECLARED, {}))


class Route(NamedTuple):
    """A route of an API.

    Attributes:
        path: Its path in Django's notation, from the first slash.
        methods: Its methods.
        operation_id: Its name in the OpenAPI document.
        needs: What it needs.
    """

    path: str
    methods: tuple[str, ...]
    operation_id: str | None
    needs: Needs


def routes_of(names: Sequence[str], prefix: str) -> Iterator[Route]:
    """Yield the routes of routers that are mounted below a prefix."""
    for router in routers_of(names):
        for path, view in router.path_operations.items():
            for operation in view.operations:
                yield Route(
                    path=prefix + replace_path_param_notation(path),
                    methods=tuple(operation.methods),
                    operation_id=operation.operation_id,
                    needs=router.needs_of(operation.view_func, operation.methods),
                )


@cache
def native_routes() -> tuple[Route, ...]:
    """Return the routes of the installed apps below ``/api/v1``."""
    return tuple(route for app in mochi_apps() for route in routes_of(app.routers, NATIVE))


class RouteTable:
    """Finds what the route of a path needs.

    Args:
        routes: The routes, with paths in Django's notation. One without methods has all.
        apis: The APIs beside the native one, whose routes are looked at with the first request.
    """

    def __init__(self, routes: Iterable[Route], apis: Iterable[ForeignApi] = ()) -> None:
        self._exact: defaultdict[str, list[Route]] = defaultdict(list)
        self._patterns: list[tuple[re.Pattern[str], Route]] = []
        for route in routes:
            if "<" in route.path:
                self._patterns.append((re.compile(_regex(route.path)), route))
            else:
                self._exact[route.path].append(route)
        self._apis = tuple(apis)
        self._tables: dict[str, RouteTable] = {}

    def needs_of(self, path: str, method: str) -> Needs:
        """Return what a request needs.

        No scope where there is nothing, or nothing for the method: the answer says no more than
        that. Views that declare nothing are for admins.
        """
        if (api := self.api_of(path)) is not None:
            return self._table_of(api).needs_of(path.removesuffix("/"), method)
        routes = self._exact.get(path)
        if routes is None:
            routes = [route for pattern, route in self._patterns if pattern.fullmatch(path)]
        methods = {method, "GET"} if method == "HEAD" else {method}
        for route in routes:
            if not route.methods or methods.intersection(route.methods):
                return route.needs
        if routes:
            return replace(routes[0].needs, scope=None)
        return ADMINS if _has_view(path) else NOTHING

    def api_of(self, path: str) -> ForeignApi | None:
        """Return the API of a path that is not of the native one."""
        return next((api for api in self._apis if api.has(path)), None)

    def _table_of(self, api: ForeignApi) -> "RouteTable":
        table = self._tables.get(api.prefix)
        if table is None:
            table = self._tables[api.prefix] = RouteTable(_routes_of_api(api))
        return table


def _routes_of_api(api: ForeignApi) -> Iterator[Route]:
    if api.routers:
        return routes_of(api.routers, api.prefix)
    return _pages(import_module(api.module).urlpatterns, api.prefix)


@cache
def route_table() -> RouteTable:
    """Return the table of all routes and pages of this server."""
    pages = _pages(get_resolver().url_patterns, "/")
    return RouteTable([*native_routes(), *pages], foreign_apis())


def _pages(entries: Iterable[URLPattern | URLResolver], prefix: str) -> Iterator[Route]:
    """Yield the views that are no routes and declare what they need."""
    for entry in entries:
        path = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            changes: _Changes = vars(entry.callback).get(_DECLARED, {})
            if changes:
                yield Route(path, (), None, replace(ADMINS, **changes))
        elif not isinstance(entry.urlconf_name, str):  # else it is imported late
            yield from _pages(entry.url_patterns, path)


def _has_view(path: str) -> bool:
    try:
        return resolve(path).url_name != UNKNOWN
    except Resolver404:  # `*`
        return False


def _regex(path: str) -> str:
    """Return a regular expression for a path in Django's notation."""
    parts: list[str] = []
    end = 0
    for found in _PARAMETER.finditer(path):
        parts += re.escape(path[end : found.start()]), _CONVERTED[found["converter"] or "str"]
        end = found.end()
    return "".join([*parts, re.escape(path[end:])])


_CONVERTED = {"str": "[^/]+", "path": ".+"}
