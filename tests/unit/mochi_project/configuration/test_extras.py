"""A setting that needs an extra says at the start how to install it."""

import pytest

from mochi_project.configuration import extras
from mochi_project.configuration.extras import require_extra
from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError


def test_what_is_installed_is_not_complained_of() -> None:
    require_extra("otel", ["json", "email.mime"])


@pytest.mark.parametrize("library", ["no_such_library", "no_such_library.at_all", "json.nothing"])
def test_what_is_missing_is_named_with_its_extra(library: str) -> None:
    with pytest.raises(ValueError, match="is not installed") as caught:
        require_extra("otel", ["json", library])

    assert str(caught.value) == (
        f"needs {library}, which is not installed: uv tool install '.[otel]' in the clone, "
        "or pip install 'mochi-server[otel]'"
    )


def test_traces_without_their_extra_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    monkeypatch.setenv("MOCHI_TRACES", "true")

    with pytest.raises(ConfigurationError) as caught:
        load_settings()

    assert str(caught.value).startswith("MOCHI_TRACES needs opentelemetry.sdk and ")
    assert "pip install 'mochi-server[otel]'" in str(caught.value)


def test_without_traces_the_extra_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)

    assert load_settings().traces is False
