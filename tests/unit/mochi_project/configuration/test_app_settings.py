"""The settings of all apps are one object, and each app takes its part of it."""

from collections import Counter
from pathlib import Path

import pytest

from mochi_project.app import build_services
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.config import ServerSettings
from mochi_project.configuration.constants import CORE, WINGS
from mochi_project.configuration.loading import MochiSettings, load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.principal import InvalidOwner
from mochi_project.trust.decision import Trust
from sessions_app.settings import SessionsSettings
from tools_app.settings import ToolsSettings
from usage_app.settings import UsageSettings

PARTS = [kind for kind in MochiSettings.__mro__[1:] if issubclass(kind, AppSettings)]


def test_a_service_of_each_type_of_settings_is_the_one_object(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)

    services = build_services(settings)

    assert len(PARTS) > 3
    assert all(services.get(kind) is settings for kind in PARTS)


def test_a_setting_is_declared_by_one_app() -> None:
    names = Counter(name for kind in PARTS for name in kind.__annotations__ if name[0] != "_")

    assert [name for name, count in names.items() if count > 1] == []


def test_settings_are_declared_by_the_app_in_whose_module_they_are() -> None:
    homes = {kind.__module__ for kind in PARTS} - {
        AppSettings.__module__,
        ServerSettings.__module__,
    }

    assert homes <= {f"{app}.settings" for app in (*CORE, *WINGS)}


def test_a_part_of_the_settings_has_their_values(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path, tools_dir="mine").of(ToolsSettings)

    assert settings.resolved_tools_dir == tmp_path / "mine"


def test_settings_that_were_made_without_an_app_are_not_its_settings() -> None:
    with pytest.raises(TypeError, match="ToolsSettings is made without UsageSettings"):
        ToolsSettings().of(UsageSettings)


def test_settings_of_an_app_that_is_left_out_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="MOCHI_MAX_IMPORT_BYTES must be greater"):
        load_settings(apps_off=["transfer_app"], max_import_bytes=1)


def test_an_owner_has_paths_of_his_own_and_what_is_shared_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    settings = load_settings(data_dir=tmp_path, sessions_dir=elsewhere, tools_dir="my_tools")
    anna, home = settings.for_owner("anna"), tmp_path / "users" / "anna"

    assert anna.owner == "anna"
    assert anna.resolved_data_dir == home
    assert anna.resolved_state_dir == home / ".mochi"
    assert anna.of(SessionsSettings).resolved_sessions_dir == home / "chat_sessions"
    assert anna.of(SessionsSettings).resolved_agent_chats_dir == home / "agents" / "agent_chats"
    assert anna.of(ToolsSettings).resolved_workspace == home / "workspace"
    assert anna.of(ToolsSettings).resolved_tools_dir == tmp_path / "my_tools"
    assert anna.server_dir == tmp_path


def test_the_default_owner_has_the_settings_themselves(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path, sessions_dir="talks")

    assert settings.for_owner("default") is settings
    assert settings.of(SessionsSettings).resolved_sessions_dir == tmp_path / "talks"
    assert settings.for_owner("anna").for_owner("default").resolved_data_dir == tmp_path


@pytest.mark.parametrize("name", ["..", "../..", "/etc", "a/../../b", ""])
def test_no_name_leads_out_of_the_folder_of_owners(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOwner):
        load_settings(data_dir=tmp_path).for_owner(name)


def test_owners_are_trusted_as_the_servers_folder_is(tmp_path: Path) -> None:
    trust = Trust(folder=tmp_path, trusted=False)
    settings = load_settings(data_dir=tmp_path).with_trust(trust)

    assert settings.for_owner("anna").trust is trust
