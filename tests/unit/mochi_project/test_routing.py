"""What routes declare that they need, and how it is found by their paths."""

from collections import defaultdict
from typing import get_args

import pytest

from mochi_project.app import foreign_apis
from mochi_project.routing import (
    Access,
    Needs,
    Route,
    RouteTable,
    native_routes,
    route_table,
    routes_of,
)


def all_routes() -> list[Route]:
    others = (routes_of(api.routers, api.prefix) for api in foreign_apis())
    return [*native_routes(), *(route for routes in others for route in routes)]


def test_every_route_says_which_access_it_needs() -> None:
    routes = all_routes()

    assert {route.needs.access for route in routes} == set(get_args(Access))
    assert len(routes) > 80


def test_conversations_and_what_they_choose_from_need_no_access_to_the_rest() -> None:
    managing = {route.operation_id for route in all_routes() if route.needs.access == "manage"}

    assert managing == {
        *("health", "ready", "get_metrics", "get_usage", "list_budgets"),
        *("reload_agents", "reload_tools", "list_tool_executions", "restart_mcp_server"),
        *("create_profile", "update_profile", "delete_profile"),
        *("create_system_prompt", "update_system_prompt", "delete_system_prompt"),
    }


def test_only_health_needs_no_token() -> None:
    free = {route.path for route in all_routes() if not route.needs.token}

    assert free == {"/api/v1/health", "/api/v1/health/ready"}


def test_the_routes_of_a_path_need_the_same_of_the_guard() -> None:
    by_path: dict[str, set[Needs]] = defaultdict(set)
    for route in all_routes():
        by_path[route.path].add(route.needs.of_guard)

    assert by_path
    assert all(len(different) == 1 for different in by_path.values())


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
    found = route_table().needs_of(path)

    assert (found.body, found.limit, found.token) == (body, limit, True)


def test_a_parameter_is_a_part_of_a_path_and_a_path_the_rest_of_it() -> None:
    free = Needs(token=False)
    table = RouteTable([("/a/<str:name>/b", free), ("/c.d/<path:rest>", free)])

    paths = ("/a/x/b", "/a/x/y/b", "/c.d/x/y", "/c-d/x")
    found = [path for path in paths if table.needs_of(path) == free]

    assert found == ["/a/x/b", "/c.d/x/y"]
