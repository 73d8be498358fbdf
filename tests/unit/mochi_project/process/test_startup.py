"""What is made at a start, and what is asked for instead."""

import stat
from pathlib import Path

import pytest

from mochi_project.configuration.loading import MochiSettings, load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.startup import (
    access_warning,
    api_token,
    prepare_data_dir,
    trust_new_data_dir,
)
from mochi_project.trust.records import TrustRecords

KEY = "0123456789abcdef" * 4


def test_a_secret_key_is_made_for_this_user_alone(tmp_path: Path) -> None:
    prepare_data_dir(MochiSettings(data_dir=tmp_path))

    made = tmp_path / ".mochi" / "secret_key"
    assert len(made.read_text()) == 43
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_no_secret_key_is_made_where_one_is_given(tmp_path: Path) -> None:
    prepare_data_dir(MochiSettings.model_validate({"data_dir": tmp_path, "secret_key": KEY}))

    assert not (tmp_path / ".mochi" / "secret_key").exists()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where a server is started, with no data directory named and nothing decided."""
    monkeypatch.delenv("MOCHI_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


def start_with(data_dir: str | None) -> None:
    settings = load_settings(data_dir=data_dir)
    trust_new_data_dir(settings)
    prepare_data_dir(settings)


@pytest.mark.parametrize("name", ["data", "../home/data", "link"])
def test_a_folder_that_was_made_by_naming_it_is_no_stranger_to_a_start_in_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (home / "link").symlink_to(home / "data")
    start_with(name)
    monkeypatch.chdir(home / name)

    settings = load_settings()

    assert settings.trust.notes == ()
    assert settings.resolved_private_dir == home / "data" / ".mochi"


@pytest.mark.parametrize("file", ["tools/a.py", "README.md"])
def test_naming_a_folder_that_was_filled_by_others_is_not_remembered(home: Path, file: str) -> None:
    """What runs may also come to it later, as with a pull."""
    (home / "data" / file).parent.mkdir(parents=True)
    (home / "data" / file).touch()
    start_with("data")
    start_with("data")

    assert TrustRecords().all() == {}


def test_secrets_that_came_with_a_folder_are_not_trusted_by_naming_it(home: Path) -> None:
    (home / "data" / ".mochi").mkdir(parents=True)
    (home / "data" / ".mochi" / "secret_key").write_text("planted")
    (home / "data" / ".mochi" / "secret_key").chmod(0o600)
    start_with("data")

    assert TrustRecords().all() == {}


def test_a_start_that_names_no_folder_trusts_none(home: Path) -> None:
    start_with(None)

    assert TrustRecords().all() == {}


def test_a_start_goes_on_where_trust_can_not_be_remembered(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = home / "state"
    state.mkdir()
    (state / "mochi-server").symlink_to(home)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    start_with("data")

    assert "can't be written" in caplog.text
    assert (home / "data" / ".mochi" / "secret_key").exists()


def node(tmp_path: Path, **settings: object) -> MochiSettings:
    """Return the settings of one of several nodes."""
    given = {"data_dir": tmp_path, "journal_url": "redis://valkey", "secret_key": KEY}
    return MochiSettings.model_validate({**given, **settings})


def test_a_node_of_several_makes_no_token_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        api_token(node(tmp_path), on_network=True)

    assert str(refused.value).startswith("MOCHI_API_TOKEN must be set with MOCHI_JOURNAL_URL, ")
    assert not (tmp_path / ".mochi").exists()


def test_a_node_of_several_is_given_its_token_where_it_needs_one(tmp_path: Path) -> None:
    assert api_token(node(tmp_path), on_network=False) is None
    assert api_token(node(tmp_path, insecure_no_auth=True), on_network=True) is None
    assert api_token(node(tmp_path, api_token="given"), on_network=True) == "given"


@pytest.mark.parametrize(
    "reached", [{"api_token": "given"}, {"host": "0.0.0.0"}], ids=["a token", "the network"]
)
def test_it_is_said_that_trusted_proxies_need_no_token_until_that_is_decided(
    reached: dict[str, str],
) -> None:
    proxies = {**reached, "trusted_proxies": ["10.0.0.1", "unix"]}

    warning = access_warning(MochiSettings.model_validate(proxies))

    assert warning
    assert warning.startswith("MOCHI_TRUSTED_PROXIES: what 10.0.0.1, unix passes on")
    for decided in (True, False):
        given = MochiSettings.model_validate({**proxies, "proxies_authenticate": decided})
        assert access_warning(given) is None


@pytest.mark.parametrize("settings", [{"trusted_proxies": ["10.0.0.1"]}, {"api_token": "given"}])
def test_nothing_is_said_of_proxies_without_them_or_without_a_token(
    settings: dict[str, object],
) -> None:
    assert access_warning(MochiSettings.model_validate(settings)) is None
