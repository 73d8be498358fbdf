"""Lets a server process die between the last save of a turn and the event that tells of it.

Python imports this first where its folder is on ``PYTHONPATH``. An answer that begins with
``DIE`` is the last one of its process.
"""

import os

from chat.engine import TurnEngine

report_complete = TurnEngine._report_complete


async def die_or_report(self: TurnEngine) -> None:
    message = self.outcome.message
    if message is not None and message.content.startswith("DIE"):
        os._exit(9)
    await report_complete(self)


TurnEngine._report_complete = die_or_report
