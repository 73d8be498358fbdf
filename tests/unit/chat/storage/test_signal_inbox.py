"""Signals to the turns of this process, also where they can't be read for a while."""

import asyncio

from chat.storage import signal_inbox
from chat.storage.signal_inbox import SignalInbox
from sessions_app.errors import StorageUnavailable
from tests.contract.memory_storage import MemorySignals


class AwayAtFirst(MemorySignals):
    """Signals that can't be read a few times."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def take(self, turn_ids):
        if self.times:
            self.times -= 1
            raise StorageUnavailable("away")
        return super().take(turn_ids)


async def test_signals_that_can_not_be_read_now_are_read_later(monkeypatch):
    monkeypatch.setattr(signal_inbox, "RETRY_SECONDS", 0)
    signals = AwayAtFirst(3)
    obeyed = asyncio.Queue()
    inbox = SignalInbox(signals, lambda *signal: obeyed.put_nowait(signal))
    inbox.expect("t1")
    signals.send("t1", "cancel")
    inbox.open()
    inbox.ready("t1")
    async with asyncio.timeout(20):
        assert await obeyed.get() == ("t1", "cancel")
    assert signals.times == 0
    inbox.close()


async def test_nobody_looks_again_for_a_turn_that_has_ended(monkeypatch):
    monkeypatch.setattr(signal_inbox, "RETRY_SECONDS", 0)
    signals = AwayAtFirst(10**9)
    inbox = SignalInbox(signals, lambda *_: None)
    inbox.expect("t1")
    inbox.open()
    async with asyncio.timeout(20):
        while signals.times == 10**9:
            await asyncio.sleep(0)
        inbox.forget("t1")
        while inbox.is_reading:
            await asyncio.sleep(0)
    inbox.close()
