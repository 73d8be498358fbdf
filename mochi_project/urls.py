"""Maps paths to views: the API, its docs page, the chat page, an envelope for every other path."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLResolver, path, re_path
from django.urls.resolvers import RegexPattern, RoutePattern

from mochi_project.configuration.setting_errors import ANOTHER_PROJECT

if not hasattr(settings, "MOCHI"):  # `include("mochi_project.urls")`
    raise ImproperlyConfigured(ANOTHER_PROJECT)

from chat.approvals.links import PATH
from chat.approvals.page import approval_page
from mochi_project.api import api
from mochi_project.app import foreign_apis
from mochi_project.chat_page import CONTENT_TYPES
from mochi_project.errors.handlers import unknown_path_view
from mochi_project.http.docs_page import asset_view
from mochi_project.http.metrics_page import metrics_view
from mochi_project.http.playground import file_view, index_view
from mochi_project.routing import NATIVE, UNKNOWN

_routes, _app_name, _namespace = api.urls
# A first token waits for the paths that are tried before its own.
_routes = sorted(_routes, key=lambda route: not str(route.pattern).endswith("stream"))
_NATIVE = f"{NATIVE[1:]}/"

urlpatterns = [
    path(f"{_NATIVE}docs/static/<str:name>", asset_view, name="docs-asset"),
    path(_NATIVE, (_routes, _app_name, _namespace)),
    # By their names: nothing of them is imported before it is asked for.
    *(
        URLResolver(
            RoutePattern(f"{other.prefix[1:]}/"),
            other.module,
            app_name=_app_name,
            namespace=other.namespace,
        )
        for other in foreign_apis()
    ),
    # And by their prefixes alone, where they have an answer to that.
    *(URLResolver(RegexPattern(rf"^{each.prefix[1:]}\Z"), each.module) for each in foreign_apis()),
    path(f"{PATH}/<str:token>", approval_page, name="approval-page"),
    path("metrics", metrics_view, name="metrics"),
    path("", index_view, name="chat-page"),
    *(path(name, file_view, {"name": name}, name="chat-page-file") for name in CONTENT_TYPES),
    # A route, not only ``handler404``: that one is reached by an exception and through a thread.
    re_path(r"", unknown_path_view, name=UNKNOWN),
]

handler400 = "mochi_project.errors.handlers.bad_request_view"
handler403 = "mochi_project.errors.handlers.forbidden_view"
handler404 = "mochi_project.errors.handlers.not_found_view"
handler500 = "mochi_project.errors.handlers.server_error_view"
