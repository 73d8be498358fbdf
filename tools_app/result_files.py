"""Keeps the images and files that tools return, so that results carry references to them.

What can't be kept is no failure of the tool: the result's text says why it is missing
(docs/decisions/0077).
"""

import logging

import msgspec

from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import MochiError, StorageError
from sessions_app.messages import Attachment
from tools_app.toolset import ToolFile, ToolResult

logger = logging.getLogger(__name__)


class ResultFiles:
    """Keeps the files of results.

    Args:
        files: Where they are kept.
        most: How many of one result are kept.
    """

    def __init__(self, files: AttachmentService, *, most: int) -> None:
        self._files = files
        self._most = most

    async def kept(self, result: ToolResult) -> ToolResult:
        """Return the result with references to its files, and words on those that are not kept."""
        if not result.files:
            return result
        attachments: dict[str, Attachment] = {}
        missing = []
        for file in result.files[: self._most]:
            kept = await self._keep(file)
            if isinstance(kept, str):
                missing.append(kept)
            else:
                attachments.setdefault(kept.id, kept)
        if (more := len(result.files) - self._most) > 0:
            missing.append(f"[{more} more files were not kept: {self._most} are the most.]")
        return _with(result, tuple(attachments.values()), missing)

    async def _keep(self, file: ToolFile) -> Attachment | str:
        try:
            return await self._files.keep(file.data, name=file.name)
        except MochiError as error:
            if isinstance(error, StorageError):
                logger.warning("a file that a tool returned could not be kept: %s", error)
            return f"[{file.name} was not kept: {error.message}]"


def _with(
    result: ToolResult, attachments: tuple[Attachment, ...], missing: list[str]
) -> ToolResult:
    said = result.error_message if result.result is None else result.result
    text = "\n".join([*([said] if said else []), *missing])
    if result.result is None and not result.success:
        return msgspec.structs.replace(
            result, error_message=text, files=(), attachments=attachments
        )
    return msgspec.structs.replace(result, result=text, files=(), attachments=attachments)
