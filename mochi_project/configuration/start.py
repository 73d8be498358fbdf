"""Resolves settings and trust at a start: ``.env`` is read only if its folder is trusted."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.trust.contents import (
    AGENTS,
    MCP,
    TOOLS,
    FolderLayout,
    read_env_file,
)
from mochi_project.trust.decision import Trust, TrustDecision, decide, inherited, notes_on

if TYPE_CHECKING:
    from mochi_project.configuration.config import ServerSettings

_PLACES = {TOOLS: "tools_dir", AGENTS: "agents_dir", MCP: "mcp_config_path"}

Validate = Callable[[Mapping[str, Any], bytes | OSError | None], "ServerSettings"]


class Start:
    """The settings and the trust of a start in the current directory. Blocks; asks nobody.

    Args:
        named: Values from flags, arguments and the environment, which need no trust.
        validate: Makes settings from those and the content of a ``.env``.
    """

    def __init__(self, named: Mapping[str, Any], validate: Validate) -> None:
        self._named = named
        self._validate = validate
        self._here = Path.cwd().resolve()
        self._env = _env_of(self._here)

    @cached_property
    def settings(self) -> "ServerSettings":
        """Return the settings, without those of an untrusted ``.env``."""
        reads_env = self._here_decision is None or self._here_decision.trusted
        return self._validate(self._named, self._env if reads_env else None)

    @cached_property
    def trust(self) -> Trust:
        """Return the parts of the folders that may be used."""
        data = self._data_decision
        notes = [note for decision in self.decisions() for note in notes_on(decision)]
        ignored = self._here_decision is not None and not self._here_decision.trusted
        return Trust(
            folder=None if data is None else data.folder,
            trusted=data is None or data.trusted,
            named=self._named_parts(),
            notes=tuple(notes),
            ignored_env=self._here / ".env" if ignored else None,
            decided={str(decision.folder): decision.trusted for decision in self.decisions()},
        )

    def decisions(self) -> Iterator[TrustDecision]:
        """Yield the decisions that this start needs, one for each folder."""
        here, data = self._here_decision, self._data_decision
        if here is not None:
            yield here
        if data is not None and data is not here:
            yield data

    def layout(self, folder: Path) -> FolderLayout:
        """Return the paths of a folder's parts, as if it were the trusted data folder."""
        env = self._env if folder == self._here else _env_of(folder)
        settings = self._settings_with(env)
        return FolderLayout(
            folder=folder,
            env=str(env).encode() if isinstance(env, OSError) else env,
            tools=Path(os.path.realpath(folder / _place(settings, TOOLS))),
            agents=Path(os.path.realpath(folder / _place(settings, AGENTS))),
            mcp=folder / _place(settings, MCP),
        )

    @cached_property
    def _here_decision(self) -> TrustDecision | None:
        """Decide about the folder of ``.env``; None if there is none, or it is the named folder."""
        if self._env is None:
            return None
        known = inherited().get(str(self._here))
        if known is None and self._data_is_named and self._named_data_dir == self._here:
            return None
        return decide(self.layout(self._here))

    @cached_property
    def _data_decision(self) -> TrustDecision | None:
        """Decide about the data folder; None if it needs no decision."""
        folder = self.settings.resolved_data_dir
        is_decided = str(folder) in inherited()
        if not is_decided and (self._data_is_named or self.settings.test_mode):
            return None
        if folder == self._here and self._here_decision is not None:
            return self._here_decision
        return decide(self.layout(folder))

    @property
    def _data_is_named(self) -> bool:
        return "data_dir" in self._named

    @property
    def _named_data_dir(self) -> Path:
        return self._validate(self._named, None).resolved_data_dir

    def _named_parts(self) -> frozenset[str]:
        settings = self.settings
        return frozenset(
            part
            for part, name in _PLACES.items()
            if name in self._named and _place(settings, part).is_absolute()
        )

    def _settings_with(self, env: bytes | OSError | None) -> "ServerSettings":
        try:
            return self._validate(self._named, env)
        except ConfigurationError:
            return self._validate(self._named, None)


def _place(settings: "ServerSettings", part: str) -> Path:
    place: Path = getattr(settings, _PLACES[part])
    return place


def _env_of(folder: Path) -> bytes | OSError | None:
    try:
        return read_env_file(folder)
    except OSError as error:
        return error
