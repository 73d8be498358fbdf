"""Which folders a start trusts, and which settings it has because of that."""

import asyncio
import json
import os
import pty
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mochi_project.app import build_services
from mochi_project.configuration.loading import load_settings, start_here
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.trust_question import ask_at_start
from mochi_project.trust.decision import pass_on
from mochi_project.trust.gate import TrustGate
from mochi_project.trust.records import TrustRecords
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound
from models_app.language_model import ModelInfo, ModelRequest
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.vendor import Vendor

Decided = Callable[..., None]
STRANGE_SERVERS = """{"mcpServers": {
    "a": {"command": "sh", "args": ["-c", "x\\u001b"], "env": {"T": "${NOT_SET}"}},
    "b": {"url": "https://b.example/mcp"},
    "c": 1
}}"""


def code(folder: Path, text: str = "x = 1") -> None:
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    (folder / "tools" / "a.py").write_text(text)


def test_a_fresh_folder_has_nothing_to_decide(here: Path) -> None:
    settings = load_settings()

    assert settings.trust.notes == ()
    assert all(decision.answered for decision in start_here().decisions())


def test_a_dotenv_of_a_folder_that_is_not_trusted_is_not_read(here: Path) -> None:
    (here / ".env").write_text("MOCHI_INSECURE_NO_AUTH=true\nMOCHI_HOST=0.0.0.0\n")

    settings = load_settings()

    assert (settings.host, settings.insecure_no_auth) == ("127.0.0.1", False)
    [note] = settings.trust.notes
    assert note.startswith(f"The folder {here} is not trusted, so nothing of its .env is used")
    assert f"mochi-server trust {here}" in note


@pytest.mark.parametrize("content", [b"MOCHI_PORT=abc", b"MOCHI_PORT=\xff"])
def test_a_broken_dotenv_stops_the_start_only_where_it_would_be_read(
    here: Path, decided: Decided, content: bytes
) -> None:
    (here / ".env").write_bytes(content)
    assert load_settings().port == 8000

    decided(here)

    with pytest.raises(ConfigurationError):
        load_settings()


def test_a_trusted_folder_is_used_whole(here: Path, decided: Decided) -> None:
    (here / ".env").write_text("MOCHI_PORT=1234")
    code(here)
    decided(here)

    settings = load_settings()

    assert settings.port == 1234
    assert settings.trust.allows("tools")
    assert settings.trust.notes == ()


def test_a_change_is_told_and_names_what_changed(here: Path, decided: Decided) -> None:
    (here / ".env").write_text("MOCHI_PORT=1234")
    code(here)
    decided(here)
    code(here, "x = 2")

    trust = load_settings().trust

    assert trust.trusted
    [note] = trust.notes
    assert note.startswith(f"tools of the trusted folder {here} changed since it was trusted")


def test_the_folder_that_a_person_names_is_trusted(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / ".env").write_text("MOCHI_PORT=1234")
    code(here)

    assert load_settings(data_dir=".").port == 1234
    assert load_settings(data_dir=".").trust.trusted
    monkeypatch.setenv("MOCHI_DATA_DIR", str(here))
    assert load_settings().trust.trusted


def test_naming_a_data_folder_trusts_no_other_folders_dotenv(here: Path, tmp_path: Path) -> None:
    (here / ".env").write_text(f"MOCHI_TOOLS_DIR={here}")

    settings = load_settings(data_dir=tmp_path / "data")

    assert settings.resolved_tools_dir == tmp_path / "data" / "tools"
    assert settings.trust.trusted
    assert "is not trusted, so nothing of its .env is used" in settings.trust.notes[0]


def test_a_data_folder_that_a_dotenv_names_needs_trust_of_its_own(
    here: Path, tmp_path: Path, decided: Decided
) -> None:
    other = tmp_path / "other"
    code(other)
    (here / ".env").write_text(f"MOCHI_DATA_DIR={other}")
    decided(here)

    settings = load_settings()

    assert settings.resolved_data_dir == other
    assert not settings.trust.allows("tools")
    decided(other)
    assert load_settings().trust.allows("tools")


def test_a_place_that_a_person_names_is_trusted_without_the_folder(
    here: Path, tmp_path: Path
) -> None:
    code(here)

    trust = load_settings(mcp_config_path=tmp_path / "mine.json", tools_dir="tools").trust

    assert trust.allows("mcp")
    assert not trust.allows("tools")


def test_test_mode_has_a_folder_of_its_own_and_reads_no_strange_dotenv(here: Path) -> None:
    (here / ".env").write_text("MOCHI_HOST=0.0.0.0")

    settings = load_settings(test_mode=True)

    assert settings.trust.trusted
    assert settings.host == "127.0.0.1"


def test_secrets_and_tasks_of_a_strange_folder_are_not_used(here: Path, decided: Decided) -> None:
    """Queued tasks are pickles, signed with the key that lies beside them."""
    assert not load_settings().resolved_private_dir.is_relative_to(here)

    decided(here)

    assert load_settings().resolved_private_dir == here / ".mochi"


def test_processes_that_are_started_later_decide_as_the_first_one_did(
    here: Path, decided: Decided
) -> None:
    code(here)
    settings = load_settings()
    pass_on(settings.trust.decided)

    decided(here)
    again = load_settings(data_dir=here)  # as the background worker is told

    assert again.resolved_private_dir == settings.resolved_private_dir
    assert not again.trust.trusted
    assert again.trust.notes == ()  # said once


def test_a_record_that_can_not_be_used_trusts_nothing_and_is_told(
    here: Path, decided: Decided
) -> None:
    code(here)
    decided(here)
    TrustRecords().path.chmod(0o666)

    trust = load_settings().trust

    assert not trust.trusted
    assert "can be written by other users" in trust.notes[0]


def test_a_running_server_notices_that_it_may(here: Path, decided: Decided) -> None:
    code(here)
    gate = TrustGate(load_settings().trust, "tools")
    assert "mochi-server trust" in (asyncio.run(gate()) or "")

    decided(here)

    assert asyncio.run(gate()) is None


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Yield what types an answer on a terminal."""
    ours, theirs = pty.openpty()
    monkeypatch.setattr("mochi_project.process.trust_question.is_on_terminal", lambda: True)
    with os.fdopen(theirs) as stdin, os.fdopen(ours, "w") as keyboard:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield lambda text: print(text, end="", file=keyboard, flush=True)


@pytest.mark.parametrize(("answer", "trusted"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_a_person_is_asked_once(
    here: Path,
    terminal: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    answer: str,
    trusted: bool,
) -> None:
    (here / ".env").write_text("MOCHI_HOST=0.0.0.0\n")
    code(here)
    terminal(answer)

    ask_at_start()
    asked = capsys.readouterr().err
    ask_at_start()

    assert "sets MOCHI_HOST" in asked
    assert "a.py" in asked
    assert capsys.readouterr().err == ""
    assert load_settings().trust.trusted is trusted


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (
            STRANGE_SERVERS,
            "mcp.json: a (sh -c x\\u001b), b (https://b.example/mcp) and c",
        ),
        ('{"mcpServers": {}}', "mcp.json: no servers"),
        ("{", "mcp.json: can't be read"),
    ],
)
def test_a_person_is_shown_what_mcp_json_starts(
    here: Path,
    terminal: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    content: str,
    shown: str,
) -> None:
    (here / "mcp.json").write_text(content)
    terminal("n\n")

    ask_at_start()

    assert shown in capsys.readouterr().err


def test_a_change_asks_again_and_no_takes_the_trust_back(
    here: Path, decided: Decided, terminal: Callable[[str], None]
) -> None:
    code(here)
    decided(here)
    ask_at_start()  # nothing to ask
    code(here, "x = 2")
    terminal("no\n")

    ask_at_start()

    assert not load_settings().trust.trusted


def test_what_changes_behind_the_question_was_not_answered(
    here: Path, terminal: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    code(here)
    terminal("y\n")
    read = sys.stdin.readline

    class Slow:
        def readline(self) -> str:
            code(here, "x = 2")
            return read()

    monkeypatch.setattr(sys, "stdin", Slow())

    ask_at_start()

    [decision] = start_here().decisions()
    assert decision.changed == ["tools"]


def test_without_a_terminal_nobody_is_asked(here: Path) -> None:
    code(here)

    ask_at_start()

    assert not load_settings().trust.trusted


def write_profile(folder: Path, name: str, **fields: str) -> None:
    (folder / "profiles").mkdir(exist_ok=True)
    profile = {"provider": "openai", "model": "m", **fields}
    (folder / "profiles" / f"{name}.json").write_text(json.dumps(profile))


def test_a_profile_of_a_strange_folder_sends_no_key_to_an_address_of_its_own(
    here: Path, decided: Decided, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    away = "http://127.0.0.1:9/v1"
    write_profile(here, "away", base_url=away)
    write_profile(here, "custom", provider="custom", base_url=away, api_key_env="OPENAI_API_KEY")
    write_profile(here, "key", api_key_env="AWS_SECRET_ACCESS_KEY")
    settings = load_settings()
    asked: list[Vendor] = []

    async def describe(self: VendorLanguageModel, model: str) -> ModelInfo:
        asked.append(self.vendor)
        return ModelInfo(name=model, size_mb=0)

    monkeypatch.setattr(VendorLanguageModel, "describe", describe)
    [note] = settings.trust.notes
    assert "nothing of its profiles (their addresses and keys) is used" in note

    models = build_services(settings).get(ModelCatalogue)

    async def ask() -> None:
        for name in ("away", "custom", "key"):
            with pytest.raises(ModelNotFound, match=r"of its own. The folder .* is not trusted"):
                await models.get(f"profile:{name}")
            model, bare_name = models.resolve(f"profile:{name}")
            with pytest.raises(ModelNotFound, match="mochi-server trust"):
                await anext(model.stream(ModelRequest(model=bare_name, messages=[])))
        assert [vendor.base_url for vendor in asked] == []
        await asyncio.to_thread(decided, here)
        await models.get("profile:custom")  # without a restart
        assert [vendor.base_url for vendor in asked] == [away]

    asyncio.run(ask())


def test_profiles_of_configured_providers_need_no_trust(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profile(here, "mine")
    settings = load_settings()

    async def describe(_: VendorLanguageModel, model: str) -> ModelInfo:
        return ModelInfo(name=model, size_mb=0)

    monkeypatch.setattr(VendorLanguageModel, "describe", describe)
    assert settings.trust.notes == ()
    assert (
        asyncio.run(build_services(settings).get(ModelCatalogue).get("profile:mine")).name
        == "profile:mine"
    )


def test_a_dotenv_that_would_fill_the_memory_harms_nobody(here: Path) -> None:
    lines = (f"A{i}=${{A{i - 1}}}${{A{i - 1}}}\n" for i in range(1, 60))
    (here / ".env").write_text("A0=xxxx\n" + "".join(lines))

    [note] = load_settings().trust.notes

    assert "nothing of its .env is used" in note


def test_the_container_image_names_its_data_folder_and_so_trusts_it():
    image = (Path(__file__).parents[4] / "Dockerfile").read_text()
    assert re.search(r"^ENV .*\bMOCHI_DATA_DIR=/", image, re.MULTILINE)


def test_a_trusted_dotenv_holds_keys_of_vendors(
    here: Path, decided: Decided, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-of-the-environment")
    (here / ".env").write_text("OPENAI_API_KEY=sk-of-the-file\nOPENROUTER_API_KEY=sk-of-the-file\n")
    assert load_settings().key_of("OPENAI_API_KEY") is None
    assert "openai" not in build_services(load_settings()).get(ModelCatalogue).providers

    decided(here)

    settings = load_settings()
    assert settings.key_of("OPENAI_API_KEY") == "sk-of-the-file"
    assert settings.key_of("OPENROUTER_API_KEY") == "sk-of-the-environment"
    assert "openai" in build_services(settings).get(ModelCatalogue).providers
    assert "sk-of-the-file" not in repr(settings)
    assert not os.environ["OPENAI_API_KEY"], "tools and MCP servers would inherit it"
