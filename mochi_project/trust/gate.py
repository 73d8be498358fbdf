"""Blocks a part of a folder until the folder is trusted, while the server runs."""

import asyncio
import logging

from mochi_project.trust.decision import Trust, off_sentence
from mochi_project.trust.records import TrustRecords, TrustRecordsError

logger = logging.getLogger(__name__)


class TrustGate:
    """Returns why a part of the data folder must not be used, until it may be.

    An untrusted folder is looked up again each time, so `mochi-server trust` needs no restart. Once
    open, the gate stays open: changes in a trusted folder take effect at once.

    Args:
        trust: The decision made at the start.
        part: The part.
    """

    def __init__(self, trust: Trust, part: str) -> None:
        self._trust = trust
        self._part = part
        self._is_open = trust.allows(part)

    async def __call__(self) -> str | None:
        """Return a sentence for people, or None when the part may be used."""
        if self._is_open or self._trust.folder is None:
            return None
        if await asyncio.to_thread(self._is_trusted_now):
            self._is_open = True
            return None
        return f"{off_sentence(self._trust.folder, [self._part])}."

    def _is_trusted_now(self) -> bool:
        assert self._trust.folder is not None  # noqa: S101 - checked by the caller
        try:
            record = TrustRecords().get(self._trust.folder)
        except TrustRecordsError as error:
            logger.warning("%s", error)
            return False
        return record is not None and record.trusted
