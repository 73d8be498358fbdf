"""Serves the ``/attachments`` routes: uploads as they arrive, downloads in pieces."""

import re
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Status

from mochi_project.app import service
from mochi_project.errors.handlers import error_response
from mochi_project.guard.refusal import Refused
from mochi_project.guard.streamed_body import ClientLeft
from mochi_project.http.arriving_file import FILE, UPLOAD, ArrivingFile, refusal
from mochi_project.routing import Router, needs
from sessions_app.attachments.media_type import HEIC, IMAGES, MEDIA_TYPES, TEXT
from sessions_app.attachments.names import checked_name
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import AttachmentTooLarge
from sessions_app.http.error_schemas import ENVELOPE
from sessions_app.http.schemas import AttachmentOut
from sessions_app.messages import Attachment

router = Router(scope="read", changes="chat", tags=["attachments"])

_SHOWN = IMAGES - {HEIC}
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_CONTENTS: dict[str, Any] = {
    **dict.fromkeys(MEDIA_TYPES, FILE),
    TEXT: {"schema": {"type": "string"}, "example": "..."},
}
_DOWNLOAD: dict[str, Any] = {
    "responses": {
        200: {"description": "The file.", "content": _CONTENTS},
        206: {"description": "A part of it.", "content": _CONTENTS},
        304: {"description": "It is the one that the client has."},
        416: {"description": "It is not as long as that."},
    }
}


@router.post(
    "/attachments",
    response={(200, 201): AttachmentOut, (400, 408, 413, 422, 507): ENVELOPE},
    openapi_extra=UPLOAD,
    summary="Upload an image or a file",
    description=(
        "The bytes themselves, or a form with one file. Messages refer to the `id` in the answer, "
        "as often as they like. 201 if it is new, 200 if these bytes were there. What no message "
        "refers to is removed after a day."
    ),
    operation_id="upload_attachment",
)
@needs(body="stream", limit="max_attachment_bytes", too_large=AttachmentTooLarge)
async def upload_attachment(
    request: HttpRequest,
    name: Annotated[str | None, Query(max_length=1000, description="What people call it")] = None,
) -> Status[Attachment] | HttpResponse:
    """Store an uploaded file as it arrives."""
    attachments = service(AttachmentService)
    file = ArrivingFile(request)
    try:
        async with aclosing(file.pieces()) as pieces:
            kept, is_new = await attachments.receive(pieces, name=None)
    except Exception as error:
        await file.drain()
        if isinstance(error, Refused) and error.code == AttachmentTooLarge.code:
            raise AttachmentTooLarge(attachments.max_bytes) from error
        if isinstance(error, Refused | ClientLeft):
            return refusal(error)
        raise
    name = file.name if name is None else name
    named = msgspec.structs.replace(kept, name=checked_name(name, kept.media_type))
    return Status(201 if is_new else 200, named)


@router.get(
    "/attachments/{attachment_id}",
    response={200: None, (404, 503): ENVELOPE},
    openapi_extra=_DOWNLOAD,
    summary="Download an image or a file",
    description=(
        "Its type is what its bytes are; texts are `text/plain`, whatever they mean to a browser. "
        "Takes `Range`. It never changes, and may be cached for ever."
    ),
    operation_id="download_attachment",
)
async def download_attachment(
    request: HttpRequest,
    attachment_id: str,
    name: Annotated[str | None, Query(max_length=1000, description="What to save it as")] = None,
) -> HttpResponseBase:
    """Send a file, or a part of it."""
    attachments = service(AttachmentService)
    found = await attachments.look_up(attachment_id, name=name)
    etag = f'"{found.id}"'
    if etag in request.headers.get("if-none-match", ""):
        response: HttpResponseBase = HttpResponse(status=304)
    else:
        span = _range_of(request, found.size, etag)
        if span is None:
            return _out_of_range(found.size)
        whole = len(span) == found.size
        pieces = (
            attachments.whole(found)
            if whole
            else attachments.pieces(found.id, span.start, len(span))
        )
        response = StreamingHttpResponse(pieces, status=200 if whole else 206)
        response["Content-Length"] = str(len(span))
        if not whole:
            response["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{found.size}"
    charset = "; charset=utf-8" if found.media_type == TEXT else ""
    response["Content-Type"] = f"{found.media_type}{charset}"
    kind = "inline" if found.media_type in _SHOWN else "attachment"
    response["Content-Disposition"] = f"{kind}; filename*=UTF-8''{quote(found.name, safe='')}"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    response["Accept-Ranges"] = "bytes"
    response["ETag"] = etag
    return response


def _out_of_range(size: int) -> HttpResponse:
    message = f"The file has {size:,} bytes, not so many."
    response = error_response("BAD_REQUEST", message, status=416)
    response["Content-Range"] = f"bytes */{size}"
    return response


def _range_of(request: HttpRequest, size: int, etag: str) -> range | None:
    """Return the requested byte range; all bytes without a valid range.

    Returns None if the range starts after the end (RFC 9110, 14.2 and 15.5.17).
    """
    asked = _RANGE.fullmatch(request.headers.get("range", "").strip())
    if asked is None or request.headers.get("if-range", etag) != etag:
        return range(size)
    first, last = asked.groups()
    if not first:
        return range(max(size - int(last), 0), size) if last and int(last) else None
    start = int(first)
    stop = min(int(last) + 1, size) if last else size
    if last and int(last) < start:
        return range(size)
    return range(start, stop) if start < size else None
