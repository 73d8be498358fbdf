"""Which view answers a path, found by the path's segments.

Django tries one pattern after the other: 18 regular expressions for a chat request. Here a path is
walked down a tree of segments once. Django's resolver stays the judge: each route is put into the
tree with what that resolver says of it, and everything that the tree does not know is its to say.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Self

from asgiref.sync import iscoroutinefunction
from django.urls import ResolverMatch, URLResolver
from django.urls.resolvers import RoutePattern

_PARAMETER = re.compile(r"<(?:str:)?(\w+)>")
_SAMPLE = "sample"


class RouteMatch(ResolverMatch):
    """What Django's resolver says of a route, with the parameters of this request.

    Attributes:
        is_async: Whether the view is a coroutine function.
    """

    is_async: bool

    @classmethod
    def of_route(cls, match: ResolverMatch) -> Self:
        """Return the match of a route, to which each request adds its parameters."""
        made = cls.__new__(cls)
        vars(made).update(vars(match), is_async=iscoroutinefunction(match.func))
        return made

    def with_parameters(self, parameters: dict[str, str]) -> "RouteMatch":
        """Return the match of a request."""
        made = RouteMatch.__new__(RouteMatch)
        vars(made).update(vars(self), kwargs=parameters, captured_kwargs=parameters)
        return made


class _Node:
    """Where a path's walk may be after some segments."""

    __slots__ = ("any_segment", "match", "names", "segments")

    def __init__(self) -> None:
        self.segments: dict[str, _Node] = {}
        self.any_segment: _Node | None = None
        self.match: RouteMatch | None = None
        self.names: Sequence[str] = ()


class RouteTable:
    """The routes of a URL configuration whose parameters are whole segments.

    Where a fixed segment and a parameter compete for a segment, the fixed one wins, in whatever
    order they are registered.
    """

    def __init__(self, resolver: URLResolver) -> None:
        self._root = _Node()
        for route in _routes_below(resolver):
            self._add(route, resolver)

    def find(self, path: str) -> RouteMatch | None:
        """Return the route of a path (``/api/v1/health``); None: Django's resolver knows."""
        node = self._root
        values: list[str] = []
        for segment in path.split("/"):
            known = node.segments.get(segment)
            if known is None:
                known = node.any_segment
                if known is None or not segment:
                    return None
                values.append(segment)
            node = known
        if node.match is None:
            return None
        return node.match.with_parameters(dict(zip(node.names, values, strict=True)))

    def _add(self, route: str, resolver: URLResolver) -> None:
        match = resolver.resolve("/" + _PARAMETER.sub(_SAMPLE, route))
        if match.route != route or vars(match)["extra_kwargs"]:
            return  # another route answers its paths, or it has more than its parameters
        node = self._root.segments.setdefault("", _Node())
        names: list[str] = []
        for segment in route.split("/"):
            parameter = _PARAMETER.fullmatch(segment)
            if parameter is None:
                node = node.segments.setdefault(segment, _Node())
                continue
            names.append(parameter[1])
            if node.any_segment is None:
                node.any_segment = _Node()
            node = node.any_segment
        node.match, node.names = RouteMatch.of_route(match), names


@lru_cache(maxsize=8)
def table_of(resolver: URLResolver) -> RouteTable:
    """Return the table of a resolver, made once."""
    return RouteTable(resolver)


def _routes_below(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    """Yield the routes that consist of fixed segments and whole-segment parameters."""
    for entry in resolver.url_patterns:
        pattern: Any = entry.pattern
        route = f"{prefix}{pattern}"
        if not isinstance(pattern, RoutePattern):
            continue
        if isinstance(entry, URLResolver):
            yield from _routes_below(entry, route)
        elif "<" not in _PARAMETER.sub("", route):
            yield route
