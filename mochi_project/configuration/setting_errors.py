"""Turns validation errors of settings into a line for each variable."""

import re

from pydantic import ValidationError
from pydantic_core import ErrorDetails

ANOTHER_PROJECT = (
    "Django is configured by another project in this process, and has one configuration in a "
    "process: run mochi-server in a process of its own, beside it"
)


_MAY_HOLD_SECRETS = frozenset(
    {
        "api_token",
        "owner_header_secret",
        "secret_key",
        "providers",
        "ollama_host",
        "journal_url",
        "sessions_url",
    }
)


_SHOULD = re.compile("^(Input|List|String) should")


class ConfigurationError(Exception):
    """A variable or flag has an unusable value; the message names it and says what is allowed."""


class AlreadyConfiguredError(ConfigurationError):
    """The process is already configured with other settings."""


def sentences_on(error: ValidationError, prefix: str) -> str:
    """Return one line for each value that can't be used; secrets are not shown."""
    details = error.errors(include_url=False, include_context=False)
    return "\n".join(_sentence(item, prefix) for item in details)


def _sentence(item: ErrorDetails, prefix: str) -> str:
    path = [str(part) for part in item["loc"]]
    variable = f"{prefix}{'__'.join(path)}".upper()
    message = words_of(item)
    if item["type"] == "missing" or path[0] in _MAY_HOLD_SECRETS:
        return f"{variable} {message}"  # the value may hold a secret, or there is none
    return f"{variable} {message} (it is {str(item['input'])[:100]!r})"


def words_of(item: ErrorDetails) -> str:
    """Return what is wrong with a value, in our words."""
    message = item["msg"].removeprefix("Value error, ").partition(", unable to")[0]
    return _SHOULD.sub("must", message).replace("Field required", "is missing")
