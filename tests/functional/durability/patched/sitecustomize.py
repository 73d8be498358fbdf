"""Changes what a test can't wait for in the server processes under test.

Python imports this first where its folder is on ``PYTHONPATH``.
"""

import os
from pathlib import Path

from chat.approvals import answers, approver
from chat.remote import journal_follower
from chat.stream import heartbeat
from chat.turn.actions import TurnActions

report_complete = TurnActions.report_complete


async def die_or_report(self: TurnActions) -> None:
    """Die between the last save and the event that tells of it, if the answer says so."""
    message = self.outcome.message
    if message is not None and message.content.startswith("DIE"):
        os._exit(9)
    await report_complete(self)


TurnActions.report_complete = die_or_report

if switches := os.environ.get("MOCHI_E2E_FAULTS"):
    from tests.unit.chat.disk import FailingDisk

    FailingDisk(Path(os.environ["MOCHI_DATA_DIR"]), Path(switches)).install()

if seconds := os.environ.get("MOCHI_E2E_LOOK_AGAIN_SECONDS"):
    answers.LOOK_AGAIN_SECONDS = float(seconds)

if seconds := os.environ.get("MOCHI_E2E_WAITING_SECONDS"):
    approver.WAITING_SECONDS = float(seconds)

if period := os.environ.get("MOCHI_E2E_HEARTBEAT_SECONDS"):
    heartbeat.HEARTBEAT_SECONDS = journal_follower.HEARTBEAT_SECONDS = float(period)
