"""``manage.py models``, against a scripted model server."""

import asyncio
import json
import threading
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from ninja.testing import TestAsyncClient

from mochi_project.app import build_services, current_services
from models_app.api import router
from models_app.catalogue import ModelCatalogue, ModelListing
from models_app.settings import ProviderConfig
from scripted_app.server import ScriptedModelServer
from tests.services import install_services

# The loop of a command serves nobody else.
pytestmark = pytest.mark.allow_blocking


@pytest.fixture(scope="module")
def url():
    """A scripted server in a thread of its own, as commands run a loop of theirs."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    server = ScriptedModelServer()

    def serve():
        loop.run_until_complete(server.start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(server.stop())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    started.wait(10)
    yield server.url
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


@pytest.fixture
def run(settings):
    def run_against(url, *arguments):
        settings.MOCHI = settings.MOCHI.model_copy(update={"ollama_host": url})
        out = StringIO()
        call_command("models", *arguments, stdout=out)
        return out.getvalue()

    return run_against


def test_the_list_is_a_table_for_people(run, url):
    table = run(url, "list")
    assert "qwen3:14b" in table
    assert "40,960" in table


def test_the_list_is_json_for_scripts(run, url):
    names = [model["name"] for model in json.loads(run(url, "list", "--json"))["models"]]
    assert names[0] == "qwen3:14b"


def test_one_model_is_shown(run, url):
    assert "thinking" in run(url, "show", "qwen3:14b")
    assert json.loads(run(url, "show", "qwen3:14b", "--json"))["context_length"] == 40960


def test_a_model_that_is_not_there_ends_the_command(run, url):
    with pytest.raises(CommandError, match="not found"):
        run(url, "show", "nope")


def test_a_server_that_is_not_there_ends_the_command(run):
    with pytest.raises(CommandError, match="Cannot connect to Ollama"):
        run("http://127.0.0.1:9", "list")


def test_test_mode_shows_the_scripted_models_without_ollama(run, settings):
    settings.MOCHI = settings.MOCHI.model_copy(update={"test_mode": True})
    names = [
        model["name"] for model in json.loads(run("http://127.0.0.1:9", "list", "--json"))["models"]
    ]
    assert names[:2] == ["qwen3:14b", "scripted-plain:latest"]
    assert "anthropic:claude-haiku-4-5" in names


def test_name_context_and_abilities_stand_in_one_line_of_80_columns(run, settings, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    settings.MOCHI = settings.MOCHI.model_copy(update={"test_mode": True})
    lines = [" ".join(line.split()) for line in run("", "list").splitlines()]
    assert "qwen3:14b 40,960 tools thinking 9.3 GB" in lines
    assert "openrouter:meta-llama/llama-3.2-1b-instruct 8,192" in lines


def test_a_name_is_shown_whole_however_narrow_the_screen(run, url, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    assert "…" not in run(url, "list")


@pytest.fixture
def silent_vendor(settings, monkeypatch):
    """A second provider, at an address where nobody listens."""
    monkeypatch.setenv("SOME_KEY", "secret")
    vendor = ProviderConfig(base_url="http://127.0.0.1:9/v1", api_key_env="SOME_KEY")
    settings.MOCHI = settings.MOCHI.model_copy(update={"providers": {"silent": vendor}})


@pytest.mark.usefixtures("silent_vendor")
def test_what_did_not_answer_is_shown_beside_what_did(run, url, capsys):
    assert "qwen3:14b" in run(url, "list")
    assert "silent did not answer: No connection" in capsys.readouterr().err


@pytest.mark.usefixtures("silent_vendor")
def test_strict_fails_when_something_did_not_answer(run, url):
    with pytest.raises(SystemExit) as ended:
        run(url, "list", "--strict")
    assert ended.value.code == 1


def test_strict_is_content_when_everybody_answered(run, url):
    assert "qwen3:14b" in run(url, "list", "--strict")


@pytest.mark.usefixtures("silent_vendor")
def test_json_is_what_the_api_says(run, url, settings):
    listed = json.loads(run(url, "list", "--json"))
    shown = json.loads(run(url, "show", "qwen3:14b", "--json"))

    install_services(build_services(settings.MOCHI))
    try:
        answers = asyncio.run(answers_of_the_api())
    finally:
        install_services(None)

    assert [listed, shown] == answers
    assert [provider["provider"] for provider in listed["unavailable"]] == ["silent"]


async def answers_of_the_api():
    client = TestAsyncClient(router)
    paths = ("/models", "/models/qwen3:14b")
    answers = [(await client.get(path)).json() for path in paths]
    await current_services().aclose()
    return answers


def test_an_empty_list_says_how_to_get_a_model(run, url, monkeypatch):
    async def none(_catalogue):
        return ModelListing(models=[], unavailable=[])

    monkeypatch.setattr(ModelCatalogue, "listing", none)

    assert "No models yet: `ollama pull MODEL`" in run(url, "list")
