"""Streams an uploaded file as it arrives: as the request's body, or in a form."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse

from mochi_project.errors.handlers import error_response
from mochi_project.guard.refusal import Refused
from mochi_project.guard.streamed_body import ClientLeft, StreamedBody

if TYPE_CHECKING:
    from sessions_app.uploads.form_file import FormFile

MULTIPART = "multipart/form-data"
FILE: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}, "example": "..."}
UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": FILE,
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "properties": {"file": FILE["schema"]},
                    "required": ["file"],
                },
                "example": {"file": "..."},
            },
        },
    }
}
"""Describes such a request in the OpenAPI document."""


class ArrivingFile:
    """The file uploaded by a request.

    Args:
        request: The request.
    """

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._body = StreamedBody.of(getattr(request, "scope", {}))
        self._form: FormFile | None = None

    @property
    def name(self) -> str | None:
        """Return the file's name in a form, available once its bytes begin."""
        return self._form.name if self._form is not None else None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes as they arrive, once.

        Raises:
            ValidationFailed: The request is an invalid form, or one without exactly one file.
            Refused: The body is too large, too slow, or shorter than announced.
            ClientLeft: The client disconnected before it was complete.
        """
        arriving = _read_already(self._request) if self._body is None else self._body.pieces()
        content_type = self._request.headers.get("content-type", "")
        pieces = arriving
        async with aclosing(arriving):
            if content_type.partition(";")[0].strip().lower() == MULTIPART:
                self._form = (await asyncio.to_thread(_form_files))(content_type, arriving)
                pieces = self._form.data()
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece

    async def drain(self) -> None:
        """Discard the rest of a refused request."""
        if self._body is not None:
            await self._body.drain()


def refusal(error: Refused | ClientLeft) -> HttpResponse:
    """Return the response to a refused body."""
    code, message = "BAD_REQUEST", "The client left in the middle of an upload."
    if isinstance(error, Refused):
        code, message = error.code, error.message
    return error_response(code, message)


def _form_files() -> "type[FormFile]":
    """Return the form parser, imported on use, because the import takes 8 ms."""
    from sessions_app.uploads.form_file import FormFile  # noqa: PLC0415 - see above

    return FormFile


async def _read_already(request: HttpRequest) -> AsyncGenerator[bytes, None]:
    yield request.body
