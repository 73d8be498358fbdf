import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from mochi_project.configuration import extras
from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError

JOURNAL = "redis://me:hunter2@cache/0"
STORE = "s3://bucket/prefix?endpoint=http://me:hunter3@store"
KEY = "k" * 32


def refusal(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    for name, value in {"SECRET_KEY": KEY, **variables}.items():
        monkeypatch.setenv(f"MOCHI_{name}", value)
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    return str(caught.value)


def test_urls_of_stores_are_settings_that_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCHI_SECRET_KEY", KEY)
    monkeypatch.setenv("MOCHI_JOURNAL_URL", JOURNAL)
    monkeypatch.setenv("MOCHI_SESSIONS_URL", STORE)

    settings = load_settings()

    assert (settings.journal_url, settings.sessions_url) == (JOURNAL, STORE)
    assert "hunter" not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    ("name", "url", "said"),
    [
        ("JOURNAL_URL", "http://me:hunter2@cache", "begins with none of redis, rediss, valkey"),
        ("JOURNAL_URL", "redis+sentinel://a,b", "which server the Sentinels know"),
        ("SESSIONS_URL", "file:///srv/hunter2", "s3://bucket/prefix or az://bucket/prefix"),
        ("SESSIONS_URL", "s3:///hunter2", "must be a URL of an object store"),
        ("SESSIONS_URL", "s3://me:hunter2\u2100@bucket", "must be a URL of an object store"),
    ],
)
def test_a_url_of_another_kind_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str, said: str
) -> None:
    sentence = refusal(monkeypatch, **{"JOURNAL_URL": JOURNAL, name: url})

    assert sentence.startswith(f"MOCHI_{name} ")
    assert said in sentence
    assert "hunter" not in sentence


def test_shared_sessions_need_a_shared_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = refusal(monkeypatch, SESSIONS_URL=STORE)

    assert sentence.startswith("MOCHI_SESSIONS_URL needs MOCHI_JOURNAL_URL")


@pytest.mark.parametrize(
    ("value", "window"), [("2048", 2048), ("1048576", 1_048_576), ("ollama", "ollama")]
)
def test_a_first_window_is_a_number_of_tokens_or_left_to_ollama(
    monkeypatch: pytest.MonkeyPatch, value: str, window: int | str
) -> None:
    monkeypatch.setenv("MOCHI_FIRST_WINDOW", value)
    assert load_settings().first_window == window


@pytest.mark.parametrize("value", ["2047", "1048577", "8k", "8192.0", "-8192", "OLLAMA", "9" * 500])
def test_any_other_first_window_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    sentence = refusal(monkeypatch, FIRST_WINDOW=value)
    assert sentence.startswith(
        "MOCHI_FIRST_WINDOW must be 2,048 to 1,048,576 tokens, or ollama (it is"
    )


@pytest.mark.parametrize(
    ("value", "kept"), [("300", 300), ("-1", -1), ("1.5", 1.5), ("30m", "30m")]
)
def test_how_long_models_stay_loaded_is_seconds_or_a_duration(
    monkeypatch: pytest.MonkeyPatch, value: str, kept: float | str
) -> None:
    monkeypatch.setenv("MOCHI_OLLAMA_KEEP_ALIVE", value)
    assert load_settings().ollama_keep_alive == kept


@pytest.mark.parametrize("value", ["half an hour", "5 m", "true", "nan"])
def test_any_other_time_stops_the_start(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    sentence = refusal(monkeypatch, OLLAMA_KEEP_ALIVE=value)
    assert sentence.startswith("MOCHI_OLLAMA_KEEP_ALIVE must be seconds, or a duration like 30m")


@pytest.mark.parametrize("library", ["redis", "hiredis", "obstore"])
def test_a_library_that_is_missing_is_named_with_the_extra_that_has_it(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == library else importlib.util.find_spec(name)

    monkeypatch.setattr(extras, "find_spec", find)

    sentence = refusal(monkeypatch, JOURNAL_URL=JOURNAL, SESSIONS_URL=STORE)

    assert f"needs {library}, which is not installed" in sentence
    assert "pip install 'mochi-server[cluster]'" in sentence


def test_the_public_address_may_have_a_path_and_loses_its_last_slash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOCHI_PUBLIC_URL", "https://Mochi.example.org:8443/chat/")

    assert load_settings().public_url == "https://mochi.example.org:8443/chat"


@pytest.mark.parametrize(
    "url",
    [
        "mochi.example.org",
        "ftp://mochi.example.org",
        "https://me:hunter2@mochi.example.org",
        "https://mochi.example.org/?a=b",
        "https://mochi.example.org/#a",
        "https://mochi.example.org/api/v1",
        "https://mochi.example.org//other.example",
    ],
)
def test_a_public_address_with_more_in_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    assert refusal(monkeypatch, PUBLIC_URL=url).startswith("MOCHI_PUBLIC_URL must ")
