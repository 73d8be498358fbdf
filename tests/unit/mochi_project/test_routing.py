"""What routes declare that they need, and how it is found by their paths."""

import re
from typing import get_args

import pytest
from django.urls import resolve

from mochi_project.app import foreign_apis
from mochi_project.principal import Scope
from mochi_project.routing import (
    UNKNOWN,
    Needs,
    Route,
    Router,
    RouteTable,
    native_routes,
    route_table,
    routes_of,
)


def all_routes() -> list[Route]:
    others = (routes_of(api.routers, api.prefix) for api in foreign_apis())
    return [*native_routes(), *(route for routes in others for route in routes)]


def scope_of(path: str, method: str) -> str | None:
    needs = route_table().needs_of(path, method)
    return needs.scope if needs.token else None


def test_every_route_says_which_scope_it_needs() -> None:
    routes = all_routes()

    assert {route.needs.scope for route in routes} == set(get_args(Scope))
    assert len(routes) > 80


def test_what_changes_the_server_for_all_needs_the_scope_admin() -> None:
    admins = {route.operation_id for route in all_routes() if route.needs.scope == "admin"}

    assert admins == {
        *("reload_agents", "reload_tools", "restart_mcp_server"),
        *("list_keys", "create_key", "revoke_key", "rotate_key"),
        *("begin_mcp_login", "end_mcp_login"),
        *("create_profile", "update_profile", "delete_profile"),
        *("create_system_prompt", "update_system_prompt", "delete_system_prompt"),
    }


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/api/v1/sessions", "read"),
        ("HEAD", "/api/v1/sessions", "read"),
        ("POST", "/api/v1/sessions", "chat"),
        ("PATCH", "/api/v1/sessions/a1b2c3d4e5", "write"),
        ("DELETE", "/api/v1/sessions/a1b2c3d4e5", "write"),
        ("POST", "/api/v1/chat/stream", "chat"),
        ("GET", "/api/v1/chat/a1b2c3d4e5/stream", "chat"),
        ("POST", "/api/v1/chat/a1b2c3d4e5/confirm-tool", "approve"),
        ("GET", "/api/v1/models/hf.co/some/model:Q4", "read"),
        ("PUT", "/api/v1/profiles/coder", "admin"),
        ("GET", "/v1/responses/resp_1", "read"),
        ("DELETE", "/v1/responses/resp_1", "write"),
        ("POST", "/v1/chat/completions", "chat"),
        ("POST", "/ollama/v1/messages", "chat"),
        ("POST", "/ollama/api/show", "read"),
        ("GET", "/ollama/", "read"),
        ("GET", "/metrics", "metrics"),
        ("GET", "/api/v1/health", None),
        ("GET", "/api/v1/openapi.json", None),
        ("GET", "/api/v1/no/such", None),
        ("GET", "/v1/no/such", None),
        ("DELETE", "/api/v1/models", None),
        ("OPTIONS", "*", None),
    ],
)
def test_the_methods_of_a_path_may_need_different_scopes(
    method: str, path: str, scope: str | None
) -> None:
    assert scope_of(path, method) == scope


def test_what_declares_nothing_is_for_admins() -> None:
    async def view() -> None: ...

    router = Router(tags=["new"])
    router.get("/new")(view)
    [needs] = {router.needs_of(view, methods) for methods in (["GET"], ["POST"])}
    table = RouteTable([Route("/new", ("GET", "POST"), None, needs)])

    assert (needs.scope, table.needs_of("/new", "GET").scope) == ("admin", "admin")


def test_the_scope_of_a_path_is_that_of_the_view_that_answers_it() -> None:
    for route in all_routes():
        path = re.sub(r"<(path:)?[^>]*>", "a1b2c3d4e5", route.path)
        for method in route.methods:
            assert scope_of(path, method) == (route.needs.scope if route.needs.token else None)
            assert resolve(path).url_name != UNKNOWN


def test_only_health_and_the_way_back_of_a_login_need_no_token() -> None:
    free = {route.path for route in all_routes() if not route.needs.token}

    assert free == {"/api/v1/health", "/api/v1/health/ready", "/api/v1/mcp/callback"}


@pytest.mark.parametrize(
    ("path", "body", "limit"),
    [
        ("/api/v1/attachments", "stream", "max_attachment_bytes"),
        ("/api/v1/import", "stream", "max_import_bytes"),
        ("/api/v1/agui", "whole", "max_history_bytes"),
        ("/api/v1/ui/chat", "whole", "max_history_bytes"),
        ("/api/v1/chat/a1b2c3d4e5/stream", "whole", "max_body_bytes"),
        ("/v1/responses", "whole", "max_history_bytes"),
        ("/v1/conversations/conv_1/items", "whole", "max_history_bytes"),
        ("/v1/no/such", "whole", "max_body_bytes"),
        ("/no/such", "whole", "max_body_bytes"),
    ],
)
def test_the_body_of_a_path_is_read_as_its_route_says(path: str, body: str, limit: str) -> None:
    found = route_table().needs_of(path, "POST")

    assert (found.body, found.limit, found.token) == (body, limit, True)


def test_a_parameter_is_a_part_of_a_path_and_a_path_the_rest_of_it() -> None:
    free = Needs(token=False)
    paths = ("/a/<str:name>/b", "/c.d/<path:rest>")
    table = RouteTable(Route(path, (), None, free) for path in paths)

    asked = ("/a/x/b", "/a/x/y/b", "/c.d/x/y", "/c-d/x")
    found = [path for path in asked if table.needs_of(path, "GET") == free]

    assert found == ["/a/x/b", "/c.d/x/y"]
