"""Declares what the settings of every app have: where the data are, trust, keys."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
)

from mochi_project.configuration.constants import ENV_PREFIX
from mochi_project.configuration.setting_types import DataPath, JournalUrl, SessionsUrl
from mochi_project.principal import DEFAULT_OWNER, is_owner, require_owner
from mochi_project.trust.decision import ALL_TRUSTED, Trust
from mochi_project.trust.records import private_directory

USERS = "users"
"""The folder with the data of the owners, each in one of its own (docs/decisions/0203)."""

Part = TypeVar("Part", bound="AppSettings")


# Of an interpreter or a linker: tools get what is in `.env` (docs/decisions/0157).
_STEERING = ("PYTHON", "LD_", "DYLD_")


class AbsolutePath:
    """Makes an attribute the absolute path of a setting, which is relative to ``data_dir``.

    Args:
        setting: The name of the setting.
        of_owner: Whether each owner has his own, at the default below his folder.
    """

    def __init__(self, setting: str, *, of_owner: bool = False) -> None:
        self._setting = setting
        self._of_owner = of_owner

    def __get__(self, settings: "AppSettings", owner: object = None) -> Path:
        """Return the path."""
        path, base = getattr(settings, self._setting), settings.server_dir
        if self._of_owner and settings.owner != DEFAULT_OWNER:
            path = type(settings).model_fields[self._setting].default
            base = settings.resolved_data_dir
        # Path.resolve() raises RuntimeError for a link that leads to itself; who opens it says why.
        return Path(os.path.realpath(base / path))


class AppSettings(BaseModel):
    """The base of the settings of each app, which ``settings.py`` of the app declares.

    Directories are relative to ``data_dir``; the ``resolved_*`` properties are absolute. The
    settings of a server are one object, of a class with all of these as its bases
    (``mochi_project.configuration.loading``).
    """

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
        defer_build=True,  # most are only bases
    )

    data_dir: DataPath = Field(Path(), description="Base directory of all data")
    journal_url: JournalUrl | None = Field(
        None,
        repr=False,
        description="Redis or Valkey for what is short-lived, so that several machines share it: "
        "`redis://host:6379/0`, `rediss://`, `valkey://`, `unix://`, "
        "`redis+sentinel://h1,h2,h3/name/0`",
    )
    sessions_url: SessionsUrl | None = Field(
        None,
        repr=False,
        description="Object store for what is kept: `s3://bucket/prefix?endpoint=...&region=...`, "
        "`az://`, `gs://`; needs `MOCHI_JOURNAL_URL`",
    )

    _trust: Trust = PrivateAttr(default=ALL_TRUSTED)
    _keys: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _owner: str = PrivateAttr(default=DEFAULT_OWNER)

    def for_owner(self, owner: str) -> Self:
        """Return these settings as those of an owner, whose data are below ``users/``.

        Of ``default`` they are themselves. What all owners share stays where it is.

        Raises:
            InvalidOwner: This is no name of an owner.
        """
        require_owner(owner)
        if owner == self._owner:
            return self
        copy = self.model_copy()
        copy._owner = owner  # noqa: SLF001 - of this class
        return copy

    @property
    def owner(self) -> str:
        """The owner whose paths these are."""
        return self._owner

    def with_trust(self, trust: Trust) -> Self:
        """Return these settings with a decision on the trust of the data folder."""
        copy = self.model_copy()
        copy._trust = trust  # noqa: SLF001 - of this class
        return copy

    def with_keys(self, variables: Mapping[str, str | None]) -> Self:
        """Return these settings with the keys among the variables of a ``.env``."""
        copy = self.model_copy()
        copy._keys = {  # noqa: SLF001 - of this class
            name: value
            for name, value in variables.items()
            if value and not name.upper().startswith((ENV_PREFIX, *_STEERING))
        }
        return copy

    def key_of(self, variable: str) -> str | None:
        """Return the key in a variable: of the environment, else of ``.env``.

        Keys of ``.env`` are not put into the environment, which child processes inherit.
        """
        return os.environ.get(variable) or self._keys.get(variable)

    @property
    def env_file(self) -> Mapping[str, str]:
        """The variables of a trusted ``.env`` that are none of the server's."""
        return self._keys

    def of(self, kind: type[Part]) -> Part:
        """Return these settings as those of one app.

        Raises:
            TypeError: They were made without it.
        """
        if not isinstance(self, kind):
            raise TypeError(f"{type(self).__name__} is made without {kind.__name__}")
        return self

    @field_validator("sessions_url")
    @classmethod
    def _nodes_share_a_journal(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("journal_url", "unusable") is None:
            raise ValueError("needs MOCHI_JOURNAL_URL, too: it shows which nodes are alive")
        return value

    @property
    def server_dir(self) -> Path:
        """The base directory of what all owners share, absolute."""
        return self.data_dir.resolve()

    @property
    def users_dir(self) -> Path:
        """The directory with the folders of all owners but ``default``, absolute."""
        return self.server_dir / USERS

    @property
    def resolved_data_dir(self) -> Path:
        """The base directory of the owner, absolute; of ``default`` that of the server."""
        server_dir = self.server_dir
        return server_dir if self._owner == DEFAULT_OWNER else self.users_dir / self._owner

    @property
    def resolved_state_dir(self) -> Path:
        """The directory of the server's own state (``.mochi``) of the owner, absolute."""
        return self.resolved_data_dir / ".mochi"

    @property
    def resolved_private_dir(self) -> Path:
        """The directory of secrets and queued tasks, absolute; outside of an untrusted folder."""
        if self.trust.trusted:
            return self.resolved_state_dir
        return private_directory(self.resolved_data_dir)

    @property
    def trust(self) -> Trust:
        """The parts of the data folder that may be used; all of them if a program replaced it."""
        is_about_it = self._trust.folder in {None, self.server_dir}
        return self._trust if is_about_it else ALL_TRUSTED


def owners_in(users_dir: Path) -> list[str]:
    """Return the owners who have a folder in a directory. Blocks."""
    with suppress(FileNotFoundError), os.scandir(users_dir) as entries:
        return sorted(entry.name for entry in entries if is_owner(entry.name) and entry.is_dir())
    return []
