"""Warns on stderr before a command: of an ignored ``.env``, broken lines, misspelt variables."""

import os
import sys

from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.configuration.variable_names import setting_warnings
from mochi_project.process.trust_question import ask_at_start
from mochi_project.screen_text import printable
from mochi_project.trust.decision import off_sentence

_ASKS = "runserver"
_WARN_THEMSELVES = {"trust", "doctor", _ASKS}
_CHECK_VARIABLES = {"doctor", _ASKS}


def warn_before(command: str = "") -> None:
    """Warn of an ignored ``.env``, of broken lines and misspelt variables.

    For a server, ask for trust first.

    The other parts of an untrusted folder are reported by the commands that would use them.
    """
    try:
        if command == _ASKS and "RUN_MAIN" not in os.environ:  # set by Django's reloader
            ask_at_start()
        settings = load_settings()
    except (ConfigurationError, KeyboardInterrupt):
        return  # Django's settings report it
    ignored = settings.trust.ignored_env
    if ignored is not None and command not in _WARN_THEMSELVES:
        _say(off_sentence(ignored.parent, ["env"]))
    if command not in _CHECK_VARIABLES:
        for sentence in setting_warnings(settings):
            _say(sentence)


def _say(warning: str) -> None:
    print(printable(f"mochi-server: warning: {warning}"), file=sys.stderr)  # noqa: T201 - the interface of a command
