"""Keeps the images, files and long texts that tools return: results carry references to them.

What can't be kept is no failure of the tool: the result's text says why it is missing
(docs/decisions/0077). A long text that is kept is read in parts (docs/decisions/0143).
"""

import asyncio
import logging

import msgspec

from sessions_app.attachments.media_type import HEAD_BYTES, image_type
from sessions_app.attachments.references import WHOLE_RESULT
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import MochiError, StorageError
from sessions_app.messages import Attachment
from tools_app.file_names import clean_name
from tools_app.output_limit import excerpt
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

    async def kept(self, result: ToolResult, *, tool_name: str = "") -> ToolResult:
        """Return the result with references to its files, and words on those that are not kept.

        Args:
            result: The result. A long text that can't be kept stays cut.
            tool_name: The tool, after which a long text is named; without it none is kept.
        """
        if not result.files:
            return result
        attachments: dict[str, Attachment] = {}
        most = self._most
        files = [file for file in result.files if file.name != WHOLE_RESULT]
        whole = next((file.data for file in result.files if file.name == WHOLE_RESULT), b"")
        # A text that begins as an image does would be taken for one.
        if whole and most and tool_name and image_type(whole[:HEAD_BYTES]) is None:
            name = f"{clean_name(tool_name)}{WHOLE_RESULT}"
            kept = await self._keep(ToolFile(name=name, data=whole))
            if not isinstance(kept, str):
                most -= 1
                attachments[kept.id] = kept
                result = _saying(result, await asyncio.to_thread(excerpt, whole, kept.id))
        missing = []
        for file in files[:most]:
            kept = await self._keep(file)
            if isinstance(kept, str):
                missing.append(kept)
            else:
                attachments.setdefault(kept.id, kept)
        if (more := len(files) - most) > 0:
            missing.append(f"[{more} more files were not kept: {most} are the most.]")
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
    return msgspec.structs.replace(_saying(result, text), files=(), attachments=attachments)


def _saying(result: ToolResult, text: str) -> ToolResult:
    if result.result is None and not result.success:
        return msgspec.structs.replace(result, error_message=text)
    return msgspec.structs.replace(result, result=text)
