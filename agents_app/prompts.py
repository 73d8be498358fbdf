"""Loads the prompts of an agent's phases, which are sent but never saved in its session."""

import logging
from importlib.resources import files
from pathlib import Path

from chat.turn.phases import PhasePrompts
from sessions_app.store.atomic import UnreadableFileError, read_regular

MAX_FILE_BYTES = 256 * 1024
"""A larger file counts as one that can't be read."""

DEFAULT_PROMPTS = "default_prompts"
"""The folder of this package in which the packaged prompts are."""

logger = logging.getLogger(__name__)


def load_phases(planning_path: Path, execution_path: Path) -> PhasePrompts:
    """Return the phases of a run with their prompts: the user's files, else the packaged ones.

    A file that can't be used (a link, too large, empty, no UTF-8) is logged, and the packaged
    prompt takes its place. Blocks.

    Args:
        planning_path: The file of the planning prompt; need not exist.
        execution_path: The file of the execution prompt; need not exist.
    """
    return PhasePrompts(
        planning=_read(planning_path, "planning.md"),
        execution=_read(execution_path, "execution.md"),
    )


def default_prompt(filename: str) -> str:
    """Return a packaged prompt: ``planning.md`` or ``execution.md``."""
    return (files("agents_app") / DEFAULT_PROMPTS / filename).read_text("utf-8").strip()


def _read(path: Path, default: str) -> str:
    try:
        text = read_regular(path, limit=MAX_FILE_BYTES).decode("utf-8-sig").strip()
        reason = "" if text else "it is empty"
    except FileNotFoundError:
        return default_prompt(default)
    except UnreadableFileError as error:
        text, reason = "", error.reason
    except UnicodeDecodeError:
        text, reason = "", "not UTF-8 text"
    if reason:
        logger.warning("%s can't be used (%s); the packaged prompt is used", path, reason)
        return default_prompt(default)
    return text
