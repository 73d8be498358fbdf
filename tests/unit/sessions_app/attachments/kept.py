"""Keeps texts as attachments, and looks whether they are there."""

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import keep
from sessions_app.errors import AttachmentNotFound
from sessions_app.messages import Attachment


class Files:
    """A store of attachments in files, for classes that have one."""

    store: FileAttachmentStore

    def kept(self, text: str) -> Attachment:
        return keep(self.store, text.encode(), name=None, max_bytes=1000)

    def has(self, attachment: Attachment) -> bool:
        try:
            self.store.stat(attachment.id)
        except AttachmentNotFound:
            return False
        return True
