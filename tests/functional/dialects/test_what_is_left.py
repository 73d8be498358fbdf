"""Nothing is left of a request that saves nothing, however its turn ends."""

import os
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from mochi_server.testing import MochiServer, Reply
from scripted_app.thread import ScriptedModelThread
from tests.functional.dialects.completions import complete

OF_PROCESSES = {".locks", "workers"}


def left(data_dir: Path) -> list[str]:
    """Return the files that say anything of a request; locks of processes do not."""
    return [
        f"{folder}/{name}"
        for folder, _, names in os.walk(data_dir / ".mochi" / "ephemeral")
        for name in names
        if Path(folder).name not in OF_PROCESSES
    ]


def wait_until_nothing_is_left(data_dir: Path) -> None:
    deadline = time.monotonic() + 60
    while found := left(data_dir):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def first_piece(stream: Any) -> str:
    """Read a stream to its first text."""
    return next(text for chunk in stream if (text := chunk.choices[0].delta.content))


def test_an_answer_that_was_read_leaves_nothing(scripted, client):
    scripted.script("Hello!", "Hello!")
    assert complete(client).choices[0].message.content == "Hello!"
    stream = complete(client, stream=True)
    assert first_piece(stream) == "Hello!"
    list(stream)
    wait_until_nothing_is_left(scripted.data_dir)


def test_an_answer_that_fails_leaves_nothing(scripted, client):
    scripted.script(Reply(status=400))
    with pytest.raises(openai.OpenAIError) as refused:
        complete(client)
    assert "session_id" not in str(refused.value)
    scripted.script(Reply(["Hel", "lo!"], drop_after=1))
    with pytest.raises(openai.OpenAIError):
        list(complete(client, stream=True))
    wait_until_nothing_is_left(scripted.data_dir)


def test_an_answer_whose_client_leaves_leaves_nothing(scripted, client):
    scripted.script(Reply(["Hel", "lo!"], stall_seconds=300, stall_after=1))
    stream = complete(client, stream=True)
    assert first_piece(stream) == "Hel"
    assert left(scripted.data_dir)
    stream.close()
    wait_until_nothing_is_left(scripted.data_dir)


def test_an_answer_whose_server_is_killed_leaves_nothing_for_long(start, connect):
    model = ScriptedModelThread()
    variables = {"MOCHI_TEST_MODEL_URL": model.start(), "MOCHI_TURN_RETENTION_SECONDS": "0"}
    try:
        server = start(**variables)
        scripted = MochiServer(server.url, server.data_dir, model, server.log)
        scripted.script(Reply(["Hel", "lo!"], stall_seconds=300, stall_after=1))
        stream = complete(connect(server), stream=True)
        assert first_piece(stream) == "Hel"
        server.kill()
        assert left(server.data_dir)
        start(**variables)
        wait_until_nothing_is_left(server.data_dir)
    finally:
        model.stop()
