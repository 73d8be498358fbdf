"""Configuration: what is accepted, and what a person is told when it is not."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mochi_project.configuration.config import is_loopback
from mochi_project.configuration.loading import MochiSettings, load_settings
from mochi_project.configuration.setting_errors import ConfigurationError


@pytest.fixture(autouse=True)
def an_empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MOCHI_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MOCHI_PORT", "abc"),
        ("MOCHI_PORT", "70000"),
        ("MOCHI_WORKERS", "0"),
        ("MOCHI_LOG_LEVEL", "loud"),
        ("MOCHI_LOG_FORMAT", "xml"),
        ("MOCHI_PROMPT_CACHE", "2h"),
        ("MOCHI_TEST_MODE", "maybe"),
        ("MOCHI_OLLAMA_HOST", "ftp://gpu"),
        ("MOCHI_OLLAMA_HOST", "http://"),
        ("MOCHI_OLLAMA_HOST", "http://gpu:port"),
        ("MOCHI_OLLAMA_HOST", "gpu:port"),
        ("MOCHI_OLLAMA_HOST", "htp:/gpu"),
        ("MOCHI_TOOL_LOOP_LIMIT", "2"),
        ("MOCHI_TOOL_LOOP_LIMIT", "101"),
        ("MOCHI_TOOL_LOOP_LIMIT", "never"),
        ("MOCHI_TOOL_TOKENS", "-1"),
        ("MOCHI_TOOL_TOKENS", "10%"),
        ("MOCHI_TURN_TIMEOUT_SECONDS", "0"),
        ("MOCHI_TURN_TIMEOUT_SECONDS", "nan"),
        ("MOCHI_UPSTREAM_TIMEOUT_SECONDS", "inf"),
        ("MOCHI_SUMMARIZATION_INTERVAL_SECONDS", "-1"),
        ("MOCHI_MAX_BODY_BYTES", "1.5"),
        ("MOCHI_ALLOWED_HOSTS", "[1"),
        ("MOCHI_CORS_ORIGINS", "app.example"),
        ("MOCHI_CORS_ORIGINS", "https://app.example/page"),
        ("MOCHI_API_TOKEN", "two words"),
        ("MOCHI_API_TOKEN", "schlüssel"),
        ("MOCHI_SECRET_KEY", "short"),
        ("MOCHI_JOURNAL_URL", "redis://cache:port"),
        ("MOCHI_LEASE_SECONDS", "0.5"),
        ("MOCHI_SESSIONS_URL", "s3://bucket"),
        ("MOCHI_DATA_DIR", "~nobody-of-that-name/data"),
        ("MOCHI_TOOL_ENVIRONMENT", "GOOD,not a name"),
        ("MOCHI_TOOL_ENVIRONMENT", "mochi_api_token"),
        ("MOCHI_TOOL_ENVIRONMENT", "MOCHI_SECRET_KEY"),
        ("MOCHI_PROVIDERS", "no json"),
        ("MOCHI_PROVIDERS__MINE__BASE_URL", "file:///etc/passwd"),
        ("MOCHI_PROVIDERS__OPENAI__API", "completions"),
    ],
)
def test_an_unusable_value_is_refused_in_one_line_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(ConfigurationError) as caught:
        load_settings()

    assert str(caught.value).startswith(f"{variable} ")
    assert len(str(caught.value).splitlines()) == 1


def test_a_misspelt_scheme_of_ollama_host_is_explained() -> None:
    with pytest.raises(ConfigurationError, match="must have a number after the colon, or be an "):
        load_settings(ollama_host="htp:/gpu")


def test_a_missing_part_of_a_provider_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCHI_PROVIDERS__MINE__API_KEY_ENV", "MY_KEY")

    with pytest.raises(ConfigurationError, match="MOCHI_PROVIDERS__MINE__BASE_URL is missing"):
        load_settings()


def test_a_known_provider_needs_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCHI_PROVIDERS__OPENAI__API_KEY_ENV", "WORK_KEY")
    monkeypatch.setenv("MOCHI_PROVIDERS__MINE__BASE_URL", "http://localhost:8080/v1/")

    providers = load_settings().providers

    assert (providers["openai"].base_url, providers["openai"].api_key_env) == (None, "WORK_KEY")
    assert providers["mine"].base_url == "http://localhost:8080/v1"


def test_an_api_is_one_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCHI_PROVIDERS__OPENAI__API", "Responses")
    with pytest.raises(ConfigurationError, match="'auto', 'responses' or 'chat'"):
        load_settings()

    monkeypatch.setenv("MOCHI_PROVIDERS__OPENAI__API", "responses")
    monkeypatch.setenv("MOCHI_PROVIDERS__MINE__BASE_URL", "http://localhost:8080/v1")
    providers = load_settings().providers
    assert (providers["openai"].api, providers["mine"].api) == ("responses", "auto")


@pytest.mark.parametrize("name", ["ANTHROPIC", "GOOGLE", "OPENROUTER"])
def test_a_provider_with_an_api_of_its_own_has_no_choice(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"MOCHI_PROVIDERS__{name}__API", "responses")

    with pytest.raises(ConfigurationError, match=f"MOCHI_PROVIDERS .*API of {name.lower()}"):
        load_settings()


@pytest.mark.parametrize("name", ["OLLAMA", "PROFILE"])
def test_a_name_that_means_something_else_is_no_provider(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"MOCHI_PROVIDERS__{name}__BASE_URL", "http://localhost:1")

    with pytest.raises(ConfigurationError, match=f"MOCHI_PROVIDERS .*{name.lower()}"):
        load_settings()


def test_every_unusable_value_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCHI_PORT", "abc")
    monkeypatch.setenv("MOCHI_WORKERS", "many")

    with pytest.raises(ConfigurationError) as caught:
        load_settings()

    assert [line.split()[0] for line in str(caught.value).splitlines()] == [
        "MOCHI_PORT",
        "MOCHI_WORKERS",
    ]


def test_a_secret_never_shows_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCHI_API_TOKEN", "top secret")
    monkeypatch.setenv("MOCHI_SECRET_KEY", "a short secret")
    monkeypatch.setenv("MOCHI_OLLAMA_HOST", "gopher://user:hunter2@gpu")

    with pytest.raises(ConfigurationError) as caught:
        load_settings()

    assert "top secret" not in str(caught.value)
    assert "short secret" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_nodes_that_share_a_journal_are_given_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCHI_JOURNAL_URL", "redis://valkey")

    with pytest.raises(ConfigurationError) as caught:
        load_settings()

    assert str(caught.value) == (
        "MOCHI_SECRET_KEY must be set with MOCHI_JOURNAL_URL, to the same value on every node "
        "(`openssl rand -hex 32` makes one)"
    )
    monkeypatch.setenv("MOCHI_SECRET_KEY", "0123456789abcdef" * 2)
    assert load_settings().secret_key is not None


def test_an_unreadable_dotenv_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOCHI_DATA_DIR", ".")
    (tmp_path / ".env").write_bytes(b"MOCHI_PORT=\xff\xfe\n")

    with pytest.raises(ConfigurationError, match=r"\.env can't be read"):
        load_settings()


def test_dotenv_is_read_and_the_environment_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOCHI_DATA_DIR", ".")
    (tmp_path / ".env").write_text("MOCHI_PORT=1234\nMOCHI_WORKERS=2\nOTHER_PROGRAM=1\n")
    monkeypatch.setenv("MOCHI_PORT", "4321")

    settings = load_settings()

    assert (settings.port, settings.workers) == (4321, 2)


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MOCHI_PORT", "MOCHI_API_TOKEN", "MOCHI_ALLOWED_HOSTS"):
        monkeypatch.setenv(variable, "")

    settings = load_settings()

    assert (settings.port, settings.api_token, settings.allowed_hosts) == (8000, None, [])


@pytest.mark.parametrize(
    ("given_host", "expected"),
    [
        ("gpu", "http://gpu:11434"),
        ("gpu:9000", "http://gpu:9000"),
        ("gpu/ollama", "http://gpu:11434/ollama"),
        (":8080", "http://127.0.0.1:8080"),
        ("me:secret@gpu/", "http://me:secret@gpu:11434"),
        ("http://gpu/", "http://gpu"),
        ("https://models.example/ollama/", "https://models.example/ollama"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(given_host: str, expected: str) -> None:
    assert load_settings(ollama_host=given_host).ollama_host == expected


@pytest.mark.parametrize("text", ["a.example,b.example", '["a.example", "b.example"]'])
def test_a_list_is_json_or_comma_separated(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MOCHI_ALLOWED_HOSTS", text)

    assert load_settings().allowed_hosts == ["a.example", "b.example"]


@given(st.lists(st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True), max_size=5))
def test_a_comma_separated_list_is_split_into_what_was_joined(items: list[str]) -> None:
    assert MochiSettings(allowed_hosts=" , ".join(items)).allowed_hosts == items  # type: ignore[arg-type]


def test_test_mode_chooses_its_port_unless_one_is_given() -> None:
    assert load_settings(test_mode=True).port == 5099
    assert load_settings(test_mode=True, port=6000).port == 6000


def test_directories_lie_in_the_data_directory_unless_they_are_absolute(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path / "data", tools_dir=tmp_path / "elsewhere")

    assert settings.resolved_sessions_dir == tmp_path / "data" / "chat_sessions"
    assert settings.resolved_tools_dir == tmp_path / "elsewhere"
    assert settings.resolved_state_dir == tmp_path / "data" / ".mochi"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "127.0.0.1.example", ""])
def test_everything_else_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_a_renamed_setting_is_still_read_under_its_former_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MOCHI_BACKGROUND_WORKER", raising=False)
    (tmp_path / ".env").write_text("MOCHI_BACKGROUND_WORKER=true\n")
    monkeypatch.setenv("MOCHI_DATA_DIR", ".")
    assert load_settings().background_worker

    monkeypatch.setenv("MOCHI_WORKER", "false")

    assert not load_settings().background_worker
    assert load_settings(worker=True).background_worker
    assert load_settings(worker=False, background_worker=True).background_worker


def test_an_app_that_can_not_be_left_out_is_refused_with_those_that_can() -> None:
    with pytest.raises(ConfigurationError, match=r"MOCHI_APPS_OFF must list .* search_app, "):
        load_settings(apps_off=["chat"])


def test_an_app_that_another_setting_needs_can_not_be_left_out() -> None:
    with pytest.raises(ConfigurationError, match="scripted_app, which MOCHI_TEST_MODE needs"):
        load_settings(apps_off=["scripted_app"], test_mode=True)


def test_a_scripted_model_elsewhere_needs_no_app_for_it() -> None:
    url = "http://localhost:5098"
    settings = load_settings(apps_off=["scripted_app"], test_mode=True, test_model_url=url)
    assert settings.apps_off == ["scripted_app"]
