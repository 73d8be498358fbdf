"""A tool that needs approval, and messages that let the scripted model call it."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.functional.processes import MANAGE, run_process

SHOWN_CALL = 'days_between(first="2026-03-01", last="2026-12-24")'
_CALL = {"name": "days_between", "args": {"first": "2026-03-01", "last": "2026-12-24"}}
_TOOLS = '''"""Dates."""

from datetime import date

__all__ = ["days_between"]


def days_between(first: date, last: date) -> str:
    """Count the days between two dates.

    Args:
        first: The first.
        last: The last.
    """
    return f"{(last - first).days} days"
'''


def block(**script: Any) -> str:
    return f"<|instruction_start|>{json.dumps(script)}<|instruction_end|>"


def saying(text: Any, **more: Any) -> str:
    return block(messages=[{"text_message": {"text": text, **more}}])


def calling(times: int = 1) -> str:
    """Return a message whose answer calls the tool so many times, one after the other."""
    calls = [{"tool_call": [_CALL]}] * times
    return block(per_request=True, messages=[*calls, {"text_message": {"text": "298."}}])


def calling_at_once(times: int) -> str:
    """Return a message whose answer calls the tool so many times at once."""
    calls = {"tool_call": [_CALL] * times}
    return block(per_request=True, messages=[calls, {"text_message": {"text": "298."}}])


def add_tool(data_dir: Path, environment: Mapping[str, str]) -> None:
    """Put the tool into a data directory, and trust that."""
    path = data_dir / "tools" / "dates.py"
    path.parent.mkdir()
    path.write_text(_TOOLS)
    command = [sys.executable, MANAGE, "trust", str(data_dir)]
    run_process(
        command, cwd=data_dir, env={**environment, "MOCHI_TEST_MODE": "false"}
    ).check_returncode()
