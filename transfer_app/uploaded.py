"""Imports uploaded files, one at a time, each received to a temporary file."""

import asyncio
import io
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import ImportRunning, ValidationFailed
from sessions_app.service import SessionManager
from sessions_app.shielding import thread_to_the_end, to_the_end
from sessions_app.store.atomic import typed_errors
from transfer_app.formats.sources import ImportOptions

if TYPE_CHECKING:
    from transfer_app.report import ImportSummary

PIECE_BYTES = 1 << 20
UNPACKED_TIMES = 8
"""The maximum unpacked size of a zip file, as a multiple of the maximum upload."""
_ONE_AT_A_TIME = threading.Lock()


class UploadedImport(msgspec.Struct, frozen=True, kw_only=True):
    """Imports an uploaded file.

    Attributes:
        sessions: The destination of sessions.
        attachments: The destination of images and files.
        folder: Returns the directory of the temporary file, which is unnamed, so that a crash
            leaves nothing.
        max_bytes: The maximum size of the file.
        options: The options, without a default model.
        default_model: Returns the model of sessions for which the file has none, if there is one.
    """

    sessions: SessionManager
    attachments: AttachmentService
    folder: Callable[[], Path]
    max_bytes: int
    options: ImportOptions = ImportOptions()
    default_model: Callable[[], Coroutine[Any, Any, str | None]]

    async def run(self, pieces: AsyncIterator[bytes]) -> "ImportSummary":
        """Receive the file, import it, and return the result.

        A cancellation stops the import after the current conversation.

        Raises:
            ImportRunning: Another import is running.
            ValidationFailed: The file is empty, or a zip file that is invalid or exceeds a limit.
            StorageError: The store is full or can't be reached.
        """
        if not _ONE_AT_A_TIME.acquire(blocking=False):
            raise ImportRunning
        try:
            file = await thread_to_the_end(self._open)
            try:
                await _receive(pieces, file)
                return await self._import(file)
            finally:
                await thread_to_the_end(file.close)
        finally:
            _ONE_AT_A_TIME.release()

    def _open(self) -> BinaryIO:
        with typed_errors():
            folder = self.folder()
            folder.mkdir(parents=True, exist_ok=True)
            return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))

    async def _import(self, file: BinaryIO) -> "ImportSummary":
        stop, loop = threading.Event(), asyncio.get_running_loop()

        @cache
        def default_model() -> str | None:
            return asyncio.run_coroutine_threadsafe(self.default_model(), loop).result()

        work = asyncio.ensure_future(asyncio.to_thread(self._take, file, default_model, stop))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            with suppress(Exception):
                await to_the_end(work)
            raise

    def _take(
        self, file: BinaryIO, default_model: Callable[[], str | None], stop: threading.Event
    ) -> "ImportSummary":
        # Imported on use, as few processes need it.
        from transfer_app.bounded_zip import Limits  # noqa: PLC0415
        from transfer_app.opening import open_import  # noqa: PLC0415
        from transfer_app.report import ImportSummary  # noqa: PLC0415

        if not file.seek(0, io.SEEK_END):
            raise ValidationFailed("The file is empty.", field="body")
        summary = ImportSummary(dry_run=self.options.dry_run)
        work = open_import(
            file,
            "file",
            sessions=self.sessions,
            store=self.attachments.store,
            limits=Limits(
                attachment_bytes=self.attachments.max_bytes,
                total_bytes=UNPACKED_TIMES * self.max_bytes,
            ),
            options=msgspec.structs.replace(self.options, default_model=default_model),
        )
        summary.leave_out(work.left_out)
        for found in work.run():
            summary.add(found)
            if stop.is_set():
                break
        summary.attachments_added += work.attachments_added
        return summary


async def _receive(pieces: AsyncIterator[bytes], file: BinaryIO) -> None:
    held = bytearray()
    async for piece in pieces:
        held += piece
        if len(held) >= PIECE_BYTES:
            await thread_to_the_end(partial(_write, file, bytes(held)))
            held.clear()
    await thread_to_the_end(partial(_write, file, bytes(held)))


def _write(file: BinaryIO, data: bytes) -> None:
    with typed_errors():
        file.write(data)
        file.flush()
