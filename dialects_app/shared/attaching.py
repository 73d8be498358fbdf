"""Stores the images and files of a request, so that its messages can refer to them."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, NoReturn

from dialects_app.shared.fields import refuse
from dialects_app.shared.files import (
    FetchFailed,
    FetchRefused,
    GivenFile,
    InlineSource,
    RemoteSource,
    StoredSource,
)
from models_app.expiring_cache import ExpiringCache
from sessions_app.attachments.base64_text import InvalidBase64, decode_base64
from sessions_app.attachments.media_type import (
    HEAD_BYTES,
    IMAGES,
    PDF,
    PNG,
    image_size,
    image_type,
    media_type,
)
from sessions_app.attachments.names import checked_name
from sessions_app.attachments.service import AttachmentService, keep_pieces
from sessions_app.errors import (
    AttachmentNotFound,
    AttachmentTooLarge,
    MochiError,
    ValidationFailed,
)
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    ToolMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from dialects_app.shared.fetching import Fetcher

MOST_REMOTE = 50
"""URLs of one request that are fetched: a history comes whole with each one."""

MOST_AT_ONCE = 4
KNOWN_SECONDS = 3600.0
"""For how long a URL in the history of a request is not fetched again."""

NO_FILES: Mapping[str, Attachment] = {}


class RequestFiles:
    """Stores the files of requests.

    Args:
        attachments: The store.
        max_count: The maximum number per message.
        fetcher: Fetches URLs; None refuses them.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        attachments: AttachmentService,
        *,
        max_count: int,
        fetcher: "Fetcher | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attachments = attachments
        self._max_count = max_count
        self._fetcher = fetcher
        self._known: ExpiringCache[str] = ExpiringCache(KNOWN_SECONDS, clock=clock)

    async def keep(
        self, messages: Sequence[Message], files: Sequence[GivenFile]
    ) -> Mapping[str, Attachment]:
        """Store the files of messages and return their attachments, by path.

        Files that are stored already, such as those of a repeated history, are not written again.

        Raises:
            ValidationFailed: A file is not accepted; ``field`` is its path.
            AttachmentNotFound, AttachmentTooLarge: For a file; ``field`` is its path.
            StorageError: A file can't be stored.
        """
        if not files:
            return NO_FILES
        self._refuse_too_many(messages)
        fetched = await self._fetch_all(files, new=_new(messages))
        kept: dict[str, Attachment] = {}
        for file in files:
            with _named(file):
                kept[file.path] = await self._store(file, fetched)
        return kept

    def _refuse_too_many(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if not isinstance(message, UserMessage | ToolMessage):
                continue
            if len(message.attachments) > self._max_count:
                refuse(
                    message.attachments[self._max_count].id,
                    f"A message has at most {self._max_count} images and files "
                    "(MOCHI_MAX_ATTACHMENTS).",
                )

    async def _store(self, file: GivenFile, fetched: Mapping[str, Attachment]) -> Attachment:
        match file.source:
            case StoredSource(id=attachment_id):
                found = await self._attachments.refer(attachment_id, name=file.name)
            case RemoteSource(url=url):
                found = fetched[url]
            case InlineSource():
                found = await asyncio.to_thread(self._store_inline, file, file.source)
        if file.is_image and found.media_type not in IMAGES:
            _refuse_type(file)
        return found

    async def measure(self, files: Sequence[GivenFile]) -> Mapping[str, Attachment]:
        """Return what estimates need to know of files, by path. None is stored or fetched.

        Raises:
            ValidationFailed: A file is not accepted; ``field`` is its path.
        """
        return await asyncio.to_thread(lambda: {file.path: self._measured(file) for file in files})

    def _measured(self, file: GivenFile) -> Attachment:
        if not isinstance(file.source, InlineSource):
            usual = PNG if file.is_image else PDF
            name = checked_name(file.name, usual)
            return Attachment(id=file.path, name=name, media_type=usual, size=0)
        data = BytesIO(b"".join(self._decoded(file, file.source)))
        kind = media_type(data) or PDF
        try:
            size = image_size(data, kind)
        except ValueError as error:
            refuse(file.path, f"It is not an image: {error}.", problem="invalid_image")
        return Attachment(
            id=file.path,
            name=checked_name(file.name, kind),
            media_type=kind,
            size=data.getbuffer().nbytes,
            width=size.width if size else None,
            height=size.height if size else None,
        )

    def _store_inline(self, file: GivenFile, source: InlineSource) -> Attachment:
        """Store a base64-encoded file. Blocks."""
        pieces = self._decoded(file, source)
        store, max_bytes = self._attachments.store, self._attachments.max_bytes
        return keep_pieces(store, pieces, name=file.name, max_bytes=max_bytes)

    def _decoded(self, file: GivenFile, source: InlineSource) -> Sequence[bytes]:
        max_bytes = self._attachments.max_bytes
        try:
            pieces = decode_base64(source.text, begin=source.begin, max_bytes=max_bytes)
        except InvalidBase64 as error:
            file.refuse(str(error), "invalid_base64_image")
        if file.is_image and pieces and image_type(pieces[0][:HEAD_BYTES]) not in IMAGES:
            _refuse_type(file)
        return pieces

    async def _fetch_all(
        self, files: Sequence[GivenFile], *, new: Collection[str]
    ) -> Mapping[str, Attachment]:
        """Fetch each URL once and return the files, by URL.

        Each request repeats its history. Files fetched for an earlier request are not fetched
        again, so that the model sees the same file.
        """
        remote: dict[str, GivenFile] = {}
        for file in files:
            if isinstance(file.source, RemoteSource) and (
                file.source.url not in remote or file.path in new
            ):
                remote[file.source.url] = file
        if not remote:
            return NO_FILES
        fetcher, first = self._fetcher, next(iter(remote.values()))
        if fetcher is None:
            first.refuse(
                "This server fetches no URLs (MOCHI_FETCH_IMAGES): send the file as a data URL, "
                "or upload it.",
                "invalid_image_url",
            )
        if len(remote) > MOST_REMOTE:
            refuse(first.path, f"A request has at most {MOST_REMOTE} URLs to fetch.")
        turns = asyncio.Semaphore(MOST_AT_ONCE)
        fetched: dict[str, Attachment] = {}

        async def fetch(url: str, file: GivenFile) -> None:
            async with turns:
                known = None if file.path in new else await self._remembered(url, file)
                fetched[url] = known or await self._fetch(fetcher, url, file)

        try:
            async with asyncio.TaskGroup() as group:
                for url, file in remote.items():
                    group.create_task(fetch(url, file))
        except BaseExceptionGroup as errors:  # Python 3.11.2 wraps what `except*` raises
            refused, others = errors.split(MochiError)
            if refused is None or others is not None:
                raise
            raise _first_of(refused) from None
        return fetched

    async def _remembered(self, url: str, file: GivenFile) -> Attachment | None:
        known = self._known.get(_digest(url))
        if known is None:
            return None
        try:
            return await self._attachments.refer(known, name=file.name)
        except AttachmentNotFound:
            return None

    async def _fetch(self, fetcher: "Fetcher", url: str, file: GivenFile) -> Attachment:
        try:
            with _named(file):
                async with fetcher.fetch(url, max_bytes=self._attachments.max_bytes) as pieces:
                    kept, _ = await self._attachments.receive(pieces, name=file.name)
                self._known.set(_digest(url), kept.id)
                return kept
        except (FetchRefused, FetchFailed) as error:
            is_refused = isinstance(error, FetchRefused)
            problem = "invalid_image_url" if is_refused else "failed_to_download_image"
            file.refuse(f"The URL can't be fetched. {error}", problem)


def _new(messages: Sequence[Message]) -> Collection[str]:
    """Return the paths of files after the last answer."""
    answers = [at for at, each in enumerate(messages) if isinstance(each, AssistantMessage)]
    said = messages[answers[-1] + 1 if answers else 0 :]
    return {attachment.id for message in said for attachment in message.attachments}


def _digest(url: str) -> str:
    """Return a digest of a URL."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


def _first_of(errors: BaseExceptionGroup[MochiError]) -> MochiError:
    first = errors.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


def _refuse_type(file: GivenFile) -> NoReturn:
    refuse(
        file.path,
        "It is not an image: PNG, JPEG, GIF, WebP and HEIC are supported, by their bytes.",
        problem="unsupported_image_media_type",
    )


@contextmanager
def _named(file: GivenFile) -> Iterator[None]:
    """Add the file's path in the request, and the problem of an image, to errors."""
    try:
        yield
    except (AttachmentNotFound, AttachmentTooLarge, ValidationFailed) as error:
        error.details["field"] = file.path
        if file.is_image:
            error.details.setdefault("problem", _PROBLEMS[type(error)])
        raise


_PROBLEMS: Mapping[type[MochiError], str] = {
    AttachmentNotFound: "image_file_not_found",
    AttachmentTooLarge: "image_too_large",
    ValidationFailed: "invalid_image",
}
