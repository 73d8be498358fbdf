"""Tools over HTTP where several workers answer as one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

MODULE = '''
"""Says what its file said when it was imported."""

from pathlib import Path

__all__ = ["say"]

WORD = Path(__file__).with_name("word.txt").read_text()


def say() -> str:
    """Say the word."""
    return WORD
'''

Script = Callable[..., str]


@pytest.fixture
def workers(start: Callable[..., Any]) -> list[Any]:
    """Return a client of each of two workers, with a folder of one tool."""
    server = start("--workers", "2")
    (server.data_dir / "tools").mkdir()
    write_word(server.data_dir, "one")
    (server.data_dir / "tools" / "words.py").write_text(MODULE)
    return [server.chat_with(process) for process in server.web_processes]


def write_word(data_dir: Path, word: str) -> None:
    (data_dir / "tools" / "word.txt").write_text(word)


def own_tools(listing: dict[str, Any]) -> list[str]:
    """Return the tools of a listing without those that are built in."""
    return sorted({"say", "tell"} & set(listing["tools"]))


def said_by(worker: Any, script: Script) -> str:
    """Have the worker's model call the tool; return what the tool said."""
    session_id = worker.new_session(
        tool_settings={"tools": ["say"], "execution_policy": "never_confirm"}
    )
    call = {"tool_call": [{"name": "say", "args": {}}]}
    events = worker.say(session_id, script(call, "Done.", per_request=True))
    (result,) = (event.data for event in events if event.name == "tool_result")
    assert result["success"], result
    return result["result"]


def test_nothing_is_started_before_somebody_asks_for_tools(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "tools"
    folder.mkdir()
    (folder / "eager.py").write_text(
        f"__all__ = []\nopen({str(tmp_path / 'imported')!r}, 'w').close()\n"
    )
    server = start()
    client = server.chat()
    client.say(client.new_session(), "No tools, please.")

    assert psutil.Process(server.process.pid).children() == []
    assert not (tmp_path / "imported").exists()
    listed(client)
    assert (tmp_path / "imported").exists()


def test_a_reload_reaches_every_worker(workers: list[Any], script: Script, tmp_path: Path) -> None:
    assert [said_by(worker, script) for worker in workers] == ["one", "one"]
    write_word(tmp_path / "data", "two")

    reloaded = workers[0].http.post("/tools/reload")

    assert reloaded.status_code == 200, reloaded.text
    assert own_tools(reloaded.json()) == ["say"]
    assert [said_by(worker, script) for worker in workers] == ["two", "two"]


def test_a_file_that_is_dropped_in_or_broken_is_noticed_by_every_worker(
    workers: list[Any], tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "tools"
    assert [own_tools(listed(worker)) for worker in workers] == [["say"], ["say"]]

    (folder / "more.py").write_text(MODULE.replace("say", "tell"))
    assert [own_tools(listed(worker)) for worker in workers] == [["say", "tell"]] * 2

    (folder / "more.py").write_text("__all__ = [\n")
    for worker in workers:
        listing = listed(worker)
        assert own_tools(listing) == ["say"]
        assert [entry["file"] for entry in listing["invalid"]] == ["more.py"]


def test_calls_of_all_workers_are_told_by_each(workers: list[Any], script: Script) -> None:
    for worker in workers:
        said_by(worker, script)

    for worker in workers:
        told = worker.http.get("/tools/executions").json()
        assert [call["tool_name"] for call in told["executions"]] == ["say", "say"]
        assert told["statistics"]["say"]["calls"] == 2


def listed(worker: Any) -> dict[str, Any]:
    answer = worker.http.get("/tools")
    assert answer.status_code == 200, answer.text
    return answer.json()
