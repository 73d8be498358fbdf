from collections.abc import Iterator
from itertools import product

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import Resolver404, ResolverMatch, get_resolver, include, path, re_path

from mochi_project.fast_django.route_table import RouteTable, table_of


def resolved(match: ResolverMatch) -> tuple[object, ...]:
    return (
        match.func,
        match.args,
        match.kwargs,
        match.route,
        match.url_name,
        match.view_name,
        match.namespaces,
        match.captured_kwargs,
    )


def every_path(resolver_paths: set[str]) -> Iterator[str]:
    """Each route, with every fixed segment of any route in the place of each parameter."""
    fixed = {part for route in resolver_paths for part in route.split("/") if "<" not in part}
    for route in resolver_paths:
        parts = [
            ["a1b2", "a1b2 ö", *sorted(fixed - {""})] if "<" in part else [part]
            for part in route.split("/")
        ]
        for chosen in product(*parts):
            yield "/" + "/".join(chosen)


def routes_of_the_api() -> set[str]:
    from mochi_project.api import api  # noqa: PLC0415 - after Django's set-up

    return {
        "api/v1/" + str(pattern.pattern)
        for pattern in api.urls[0]
        if "<" in str(pattern.pattern) and "<path:" not in str(pattern.pattern)
    } | {"api/v1/health", "api/v1/sessions", "api/v1/openapi.json", "api/v1/docs"}


def test_every_path_of_the_api_has_the_view_that_djangos_resolver_gives_it() -> None:
    resolver = get_resolver()
    table = RouteTable(resolver)
    paths = sorted(set(every_path(routes_of_the_api())))
    assert len(paths) > 500
    for asked in paths:
        match = table.find(asked)
        if match is None:  # a session named like a route: Django says which one it is
            assert "a1b2" not in asked
            continue
        assert resolved(match) == resolved(resolver.resolve(asked)), asked


@pytest.mark.parametrize(
    "asked",
    ["", "/", "//", "/api/v1", "/api/v1/chat//stream", "/api/v1/chat/a/b/c", "/API/v1/health"],
)
def test_a_path_that_is_no_route_is_left_to_django(asked: str) -> None:
    assert RouteTable(get_resolver()).find(asked) is None


def test_one_requests_parameters_are_not_anothers() -> None:
    table = table_of(get_resolver())
    one = table.find("/api/v1/sessions/one")
    two = table.find("/api/v1/sessions/two")
    assert one is not None
    assert two is not None
    assert (one.kwargs, two.kwargs) == ({"session_id": "one"}, {"session_id": "two"})


async def view(request: HttpRequest, **parameters: str) -> HttpResponse:
    return HttpResponse()


def sync_view(request: HttpRequest, **parameters: str) -> HttpResponse:
    return HttpResponse()


class UrlConf:
    urlpatterns = (
        path("number/<int:number>", view),
        path("file-<name>", view),
        path("deep/<path:rest>", view),
        path("given/<name>", view, {"colour": "red"}),
        path("<first>/shadows", view, name="first"),
        path("now/<what>", view, name="second"),
        path("<anything>/same", view, name="same"),
        path("hidden/same", view, name="hidden"),
        path("below/", include([path("<name>", sync_view), re_path("^re/(.*)$", view)])),
    )


def test_what_the_table_can_not_say_exactly_it_does_not_say() -> None:
    with override_settings(ROOT_URLCONF=UrlConf):
        table = RouteTable(get_resolver())
        for asked in ("/number/5", "/file-a", "/deep/a/b", "/given/a", "/below/re/x", "/number/x"):
            assert table.find(asked) is None
        same = table.find("/hidden/same")
        assert same is None or same.url_name == "same"
        below = table.find("/below/a")
        assert below is not None
        assert not below.is_async
        with pytest.raises(Resolver404):
            get_resolver().resolve("/number/x")
