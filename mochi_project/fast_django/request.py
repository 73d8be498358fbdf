"""Django's request over ASGI, without what few views ask for."""

from functools import cached_property
from io import BytesIO
from typing import Any, BinaryIO

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest, get_script_prefix
from django.http import QueryDict

from mochi_project.asgi_types import Scope


class LeanRequest(ASGIRequest):
    """A request whose ``META`` is made by Django's own class when somebody asks for it.

    Attributes:
        answers_late: A view may return a stream that has not begun: its ``ready`` is awaited.
    """

    answers_late = True

    def __init__(self, scope: Scope, body_file: BinaryIO) -> None:
        if not scope.get("query_string", b"").isascii():
            super().__init__(scope, body_file)  # which says what is wrong with it
            return
        self.scope = scope
        self._post_parse_error = False
        self._read_started = False
        self.resolver_match = None
        self.path = scope["path"]
        self.script_name = get_script_prefix(scope)
        self.path_info = self.path.removeprefix(self.script_name)
        self.method = scope["method"].upper()
        self._stream = body_file
        if isinstance(body_file, BytesIO):
            body = body_file.getvalue()
            most: int | None = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
            if most is None or len(body) <= most:
                self._body = body

    @cached_property
    def META(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Django's name
        """The headers as Django names them."""
        return ASGIRequest(self.scope, BytesIO()).META

    @cached_property
    def GET(self) -> QueryDict:  # type: ignore[override]  # noqa: N802 - Django's name
        """The parameters of the query."""
        return QueryDict(self.scope.get("query_string", b""))

    @cached_property
    def content_type(self) -> Any:  # type: ignore[override]
        """The media type of the body."""
        return self._of_body("content_type")

    @cached_property
    def content_params(self) -> Any:  # type: ignore[override]
        """The parameters of the body's media type."""
        return self._of_body("content_params")

    def _of_body(self, name: str) -> Any:
        self._set_content_type_params(self.META)  # type: ignore[attr-defined]
        return vars(self)[name]
