"""Warns on stderr that a ``.env`` is ignored; asks for trust before ``runserver``."""

import os
import sys

from mochi_project.configuration.config import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.trust_question import ask_at_start
from mochi_project.trust.decision import off_sentence

_ASKS = "runserver"
_WARN_THEMSELVES = {"trust", "doctor", _ASKS}


def warn_about_ignored_env(command: str = "") -> None:
    """Warn if a ``.env`` is not read; for a server, ask whether its folder is trusted.

    The commands that would use the other parts of a folder warn of them.
    """
    try:
        if command == _ASKS and "RUN_MAIN" not in os.environ:  # which Django's reloader sets
            ask_at_start()
        ignored = load_settings().trust.ignored_env
    except (ConfigurationError, KeyboardInterrupt):
        return  # Django's settings report it
    if ignored is not None and command not in _WARN_THEMSELVES:
        sentence = off_sentence(ignored.parent, ["env"])
        print(f"mochi-server: warning: {sentence}", file=sys.stderr)  # noqa: T201
