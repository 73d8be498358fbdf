"""Says on stderr what a command ignores; asks for trust before ``runserver``."""

import os
import sys

from mochi_project.configuration.config import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.trust_question import ask_at_start
from mochi_project.trust.decision import off_sentence

_ASKS = "runserver"
_SAYS_IT_ITSELF = {"trust", "doctor", _ASKS}


def say_what_is_ignored(command: str = "") -> None:
    """Say that a ``.env`` is not read, if so; ask whether its folder is trusted, for a server.

    The other parts of a folder are told of by the commands that would use them.
    """
    try:
        if command == _ASKS and "RUN_MAIN" not in os.environ:  # which Django's reloader sets
            ask_at_start()
        ignored = load_settings().trust.ignored_env
    except (ConfigurationError, KeyboardInterrupt):
        return  # Django's settings say it
    if ignored is not None and command not in _SAYS_IT_ITSELF:
        sentence = off_sentence(ignored.parent, ["env"])
        print(f"mochi-server: warning: {sentence}", file=sys.stderr)  # noqa: T201
