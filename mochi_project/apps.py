"""Plugs the server itself together: configuration, serving, background work."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mochi_project.app import MochiApp
from mochi_project.errors.statuses import RETRY_AFTER_OF_CODE, STATUS_OF_CODE


class ServerApp(MochiApp):
    """Describes the app."""

    name = "mochi_project"
    routers = ("mochi_project.http.api:router", "mochi_project.keys.api:router")
    statuses = STATUS_OF_CODE
    retry_after = RETRY_AFTER_OF_CODE
    error_rules = (("/keys", "KEYS_INVALID"), ("{key_id}", "KEY_NOT_FOUND"))

    def kept_files(self, configuration: Any) -> Mapping[str, Path]:
        """Return the keys."""
        from mochi_project.keys.store import NAME, keys_directory  # noqa: PLC0415 - for few

        return {"keys": keys_directory(configuration) / NAME}
