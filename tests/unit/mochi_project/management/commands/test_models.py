"""``manage.py models``, against a scripted model server."""

import asyncio
import json
import threading
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from models_app.scripted.server import ScriptedModelServer

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


def test_a_name_is_shown_whole_however_narrow_the_screen(run, url, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "…" not in run(url, "list")
