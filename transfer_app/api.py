"""Serves the routes that export one session or all, and import."""

import asyncio
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal, Self

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Query

from mochi_project.app import service
from mochi_project.guard.refusal import Refused
from mochi_project.guard.streamed_body import ClientLeft
from mochi_project.http.arriving_file import UPLOAD, ArrivingFile, refusal
from mochi_project.memory.large_responses import LARGE_BYTES, LargeResponses, ResponseSlot
from mochi_project.routing import Router, needs
from models_app.default_model import DefaultModel
from sessions_app.attachments.service import AttachmentService
from sessions_app.export import to_markdown
from sessions_app.format.message_format import size_of_message
from sessions_app.http.error_schemas import ENVELOPE
from sessions_app.http.import_schemas import ImportOut
from sessions_app.service import SessionManager
from sessions_app.session import MODEL_NAME_LENGTH, Session
from transfer_app.exporting import AllExport, AllFormat
from transfer_app.formats.sources import ImportOptions, Source
from transfer_app.layout import attachment_name, attachment_named
from transfer_app.settings import TransferSettings
from transfer_app.uploaded import UploadedImport
from transfer_app.writing import kept_files, session_entries, session_pieces, zip_pieces

router = Router(scope="read", changes="write", tags=["sessions"])

MOST_NAMED = 20
"""The maximum attachments named in a header; proxies accept headers of some KiB."""

Format = Literal["json", "markdown", "zip"]
_ENDINGS: dict[Format, tuple[str, str]] = {
    "json": ("json", "application/json; charset=utf-8"),
    "markdown": ("md", "text/markdown; charset=utf-8"),
    "zip": ("zip", "application/zip"),
}
_ZIP: dict[str, Any] = {
    "application/zip": {"schema": {"type": "string", "format": "binary"}, "example": "PK..."}
}


def _answers(contents: dict[str, Any]) -> dict[str, Any]:
    """Return what OpenAPI says of a file in one of these formats, or as a zip file."""
    content = {"description": "The file.", "content": {**contents, **_ZIP}}
    return {"responses": {200: content}}


_ANSWERS = _answers(
    {
        "application/json": {
            "schema": {"type": "object"},
            "example": {"metadata": {"session_id": "a1b2c3d4e5"}, "messages": []},
        },
        "text/markdown": {"schema": {"type": "string"}, "example": "# Session a1b2c3d4e5\n"},
    }
)

_ALL_TYPES: dict[AllFormat, str] = {
    "jsonl": "application/x-ndjson; charset=utf-8",
    "zip": "application/zip",
}
_ALL_ANSWERS = _answers(
    {
        "application/x-ndjson": {
            "schema": {"type": "string"},
            "example": '{"metadata":{"session_id":"a1b2c3d4e5"},"messages":[]}\n',
        }
    }
)


@router.get(
    "/sessions/{session_id}/export",
    response={200: None, (404, 422, 500, 503): ENVELOPE},
    openapi_extra=_ANSWERS,
    summary="Export a session",
    description=(
        "`json` is the session's file, `markdown` is for people, `zip` has the session's file and "
        "the images and files of its messages; `mochi-server sessions import` takes it in "
        "elsewhere. What is not kept any more is left out and named in `x-mochi-warning`."
    ),
    operation_id="export_session",
)
async def export_session(
    request: HttpRequest,
    session_id: str,
    format: Annotated[Format, Query(description="What to write")] = "json",  # noqa: A002
) -> StreamingHttpResponse:
    """Send a session as a file."""
    session = await asyncio.to_thread(service(SessionManager).get, session_id)
    pieces, warning = await asyncio.to_thread(_begin, session, format)
    is_large = await asyncio.to_thread(_is_large, session)
    place = await service(LargeResponses).enter() if is_large else None
    ending, content_type = _ENDINGS[format]
    response = StreamingHttpResponse(PiecesFromThreads(pieces, place), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="session-{session_id}.{ending}"'
    if warning:
        response["x-mochi-warning"] = warning
    return response


@router.get(
    "/export",
    response={200: None, (422, 500, 503): ENVELOPE},
    openapi_extra=_ALL_ANSWERS,
    summary="Export all sessions",
    description=(
        "`jsonl` has a session a line, as in its file but for the white space; `zip` has the "
        "sessions' files and the images and files of their messages. `mochi-server sessions "
        "import` and `POST /import` take both in elsewhere. What can't be read is left out, and "
        "counted in `x-mochi-warning`."
    ),
    operation_id="export_sessions",
)
async def export_sessions(
    request: HttpRequest,
    format: Annotated[AllFormat, Query(description="What to write")] = "jsonl",  # noqa: A002
    archived: Annotated[
        bool | None, Query(description="Only those that are, or are not, archived")
    ] = None,
) -> StreamingHttpResponse:
    """Send all sessions as a file, one after the other."""
    export = await asyncio.to_thread(
        AllExport, service(SessionManager), service(AttachmentService).store, archived=archived
    )
    place = await service(LargeResponses).enter()
    response = StreamingHttpResponse(
        PiecesFromThreads(export.pieces(format), place), content_type=_ALL_TYPES[format]
    )
    response["Content-Disposition"] = f'attachment; filename="sessions.{format}"'
    if export.warning:
        response["x-mochi-warning"] = export.warning
    return response


@router.post(
    "/import",
    response={200: ImportOut, (400, 408, 413, 422, 500, 503, 507): ENVELOPE},
    openapi_extra=UPLOAD,
    summary="Import sessions",
    description=(
        "A file that this server exported, or another program: the bytes themselves, or a form "
        "with one file. The answer comes when all is taken in; doing it again makes nothing twice. "
        "One at a time in each process: 503 `IMPORT_RUNNING` for others. Files above "
        "`MOCHI_MAX_IMPORT_BYTES` are for `mochi-server sessions import`."
    ),
    operation_id="import_sessions",
)
@needs(body="stream", limit="max_import_bytes")
async def import_sessions(
    request: HttpRequest,
    source: Annotated[Source, Query(description="The program that wrote it")] = "auto",
    branches: Annotated[
        bool, Query(description="Also the branches that are not shown, as forks")
    ] = False,
    model: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=MODEL_NAME_LENGTH,
            description="The model of all sessions, whatever the file says",
        ),
    ] = None,
    dry_run: Annotated[bool, Query(description="Write nothing, say what would be")] = False,
) -> Mapping[str, Any] | HttpResponse:
    """Import a file of sessions, or of another program's conversations."""
    file = ArrivingFile(request)
    work = UploadedImport(
        sessions=service(SessionManager),
        attachments=service(AttachmentService),
        folder=lambda: service(TransferSettings).resolved_state_dir,
        max_bytes=service(TransferSettings).max_import_bytes,
        options=ImportOptions(
            source=source,
            all_branches=branches,
            model=(model or "").strip() or None,
            dry_run=dry_run,
        ),
        default_model=service(DefaultModel).name_if_known,
    )
    try:
        async with aclosing(file.pieces()) as pieces:
            summary = await work.run(pieces)
    except Exception as error:
        await file.drain()
        if isinstance(error, Refused | ClientLeft):
            return refusal(error)
        raise
    return summary.as_json()


def _begin(session: Session, kind: Format) -> tuple[Iterator[bytes], str]:
    if kind == "json":
        return session_pieces(session), ""
    if kind == "markdown":
        return iter((to_markdown(session).encode(),)), ""
    store = service(AttachmentService).store
    files, missing = kept_files(session, store)
    pieces = zip_pieces(session_entries(session, files, store))
    return pieces, _warning([each.id for each in missing])


def _warning(missing: Sequence[str]) -> str:
    """Return a header value about missing attachments, limited, as a file may name many."""
    if not missing:
        return ""
    named = [each for each in missing if attachment_named(attachment_name(each)) == each]
    named = named[:MOST_NAMED]
    more = [f"{len(missing) - len(named)} more"] if len(missing) > len(named) else []
    return f"not kept any more: {', '.join([*named, *more])}"


def _is_large(session: Session) -> bool:
    """Return whether a session takes much memory until it is sent."""
    return sum(map(size_of_message, session.messages)) > LARGE_BYTES


class PiecesFromThreads:
    """Yields the pieces of a response, each produced in a thread after the previous one was sent.

    Args:
        pieces: Produces the pieces.
        place: The place among large responses, released at the end.
    """

    def __init__(self, pieces: Iterator[bytes], place: ResponseSlot | None) -> None:
        self._pieces = pieces
        self._place = place
        self._step: asyncio.Future[bytes | None] | None = None

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        self._step = asyncio.ensure_future(asyncio.to_thread(next, self._pieces, None))
        piece = await asyncio.shield(self._step)  # the thread can't be cancelled
        if piece is None:
            self.close()
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Release the place."""
        if self._place is not None:
            self._place.leave()

    async def aclose(self) -> None:
        """Stop producing pieces, and release the place."""
        try:
            if self._step is not None:
                await asyncio.wait([self._step])
            if isinstance(self._pieces, Generator):  # it may hold files open
                await asyncio.to_thread(self._pieces.close)
        finally:
            self.close()
