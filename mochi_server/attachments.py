"""Exports images and files as a library: ``AttachmentService(FileAttachmentStore(directory))``."""

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.intake import GivenAttachment, Inline, Reference, resolve
from sessions_app.attachments.service import AttachmentDamaged, AttachmentService
from sessions_app.messages import Attachment

__all__ = [
    "Attachment",
    "AttachmentDamaged",
    "AttachmentService",
    "FileAttachmentStore",
    "GivenAttachment",
    "Inline",
    "Reference",
    "resolve",
]
AttachmentDamaged.__module__ = __name__  # for tracebacks
