"""All processes of a server count together what clients see."""

import re
import shutil
import subprocess

import pytest

from tests.functional.conftest import block, text_of
from tests.functional.metrics.conftest import pids, total, until
from usage_app.metrics.names import METRICS

NAMES = {metric.name for metric in METRICS}


def added(before, after, name, **labels):
    return total(after, name, **labels) - total(before, name, **labels)


def test_turns_of_all_processes_count_together(server, metrics):
    before = metrics()
    tokens = 0
    for worker in server.web_processes:
        chat = server.chat_with(worker)
        events = chat.say(chat.new_session(), "hello")
        (complete,) = (event.data for event in events if event.name == "message_complete")
        tokens += complete["turn_usage"]["output_tokens"]
    count = len(server.web_processes)
    assert count == 3
    # A client sees its last event a moment before the turn has ended.
    until(lambda: added(before, metrics(), "mochi_turns_total") == count)
    after = metrics()
    assert added(before, after, "mochi_turns_total", status="completed", dialect="native") == count
    assert added(before, after, "mochi_turn_seconds_count") == count
    assert added(before, after, "mochi_model_calls_total", purpose="chat") == count
    assert added(before, after, "mochi_model_first_token_seconds_count") == count
    assert added(before, after, "mochi_tokens_total", type="output") == tokens
    assert total(after, "mochi_active_turns") == 0


def test_a_turn_that_runs_and_who_listens_are_shown_while_they_are(server, metrics):
    chat = server.chat()
    message = block({"text_message": {"text": "slow " * 3000}}, words_per_second=20)
    with chat.stream(chat.new_session(), message=message) as events:
        assert next(event for event in events if event.name == "content_delta")
        until(lambda: total(metrics(), "mochi_streams_attached") == 1)
        assert total(metrics(), "mochi_active_turns") == 1
    until(lambda: total(metrics(), "mochi_active_turns") == 0)
    until(lambda: total(metrics(), "mochi_streams_attached") == 0)
    until(lambda: total(metrics(), "mochi_turns_total", status="cancelled") >= 1)


def test_tools_count_by_name_and_outcome(server, metrics):
    chat = server.chat()
    before = metrics()
    call = {"tool_call": [{"name": "no_such_tool", "args": {}}]}
    message = block(call, "Done.", per_request=True)
    assert text_of(chat.say(chat.new_session(), message)) == "Done."
    until(lambda: added(before, metrics(), "mochi_turns_total") == 1)
    after = metrics()
    assert added(before, after, "mochi_tool_calls_total", tool="unknown") == 1
    assert added(before, after, "mochi_tool_calls_total", status="TOOL_NOT_FOUND") == 1


def test_errors_of_models_count_by_code(server, metrics):
    chat = server.chat()
    before = metrics()
    answer = chat.http.post(f"/chat/{chat.new_session()}", json={"message": block("x", status=500)})
    assert answer.status_code == 502
    until(lambda: added(before, metrics(), "mochi_turns_total", status="failed") == 1)
    code = answer.json()["error"]["code"]
    assert added(before, metrics(), "mochi_upstream_errors_total", code=code) == 1


@pytest.mark.parametrize(
    ("path", "body", "dialect"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}, "chat_completions"),
        ("responses", {"input": "Hi"}, "responses"),
    ],
)
def test_turns_count_by_the_protocol_that_asked(server, metrics, path, body, dialect):
    chat = server.chat()
    before = metrics()
    answer = chat.http.post(f"{server.url}/v1/{path}", json={"model": "qwen3:14b", **body})
    assert answer.status_code == 200
    until(lambda: added(before, metrics(), "mochi_turns_total", dialect=dialect) == 1)


def test_a_killed_process_takes_its_gauges_along_and_leaves_its_counts(server, metrics):
    worker = server.web_processes[0]
    chat = server.chat_with(worker)
    counted = metrics()
    chat.say(chat.new_session(), "counted")
    until(lambda: added(counted, metrics(), "mochi_turns_total") == 1)
    before = total(metrics(), "mochi_turns_total")
    message = block({"text_message": {"text": "slow " * 3000}}, words_per_second=20)
    with chat.stream(chat.new_session(), message=message) as events:
        assert next(event for event in events if event.name == "content_delta")
        until(lambda: total(metrics(), "mochi_active_turns") == 1)
        worker.kill()
    until(lambda: total(metrics(), "mochi_active_turns") == 0)
    assert total(metrics(), "mochi_turns_total") == before
    until(lambda: worker.pid not in pids(server) and len(pids(server)) == 3)
    chat = server.chat()
    chat.say(chat.new_session(), "again")
    until(lambda: total(metrics(), "mochi_turns_total") == before + 1)


def test_the_names_are_those_of_the_table(server, metrics):
    shown = {re.sub("_(sum|count|bucket)$", "", name) for name, _ in metrics()}
    assert shown <= NAMES
    assert {"mochi_turns_total", "mochi_active_turns", "mochi_queue_age_seconds"} <= shown


def test_json_has_the_same_values(server, metrics):
    chat = server.chat()
    until(lambda: total(metrics(), "mochi_active_turns") == 0)
    shown = chat.http.get("/metrics").json()["metrics"]
    assert sum(each["value"] for each in shown["mochi_turns_total"]) == total(
        metrics(), "mochi_turns_total"
    )
    (build,) = shown["mochi_build_info"]
    assert build["value"] == 1
    assert set(build["labels"]) == {"version", "python", "django"}


def test_openmetrics_is_given_to_who_asks_for_it(server):
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = server.chat().http.get(f"{server.url}/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_promtool_finds_nothing_to_say(server):
    text = server.chat().http.get(f"{server.url}/metrics").content
    checked = subprocess.run(
        ["promtool", "check", "metrics"], check=False, input=text, capture_output=True, timeout=60
    )
    assert (checked.returncode, checked.stderr) == (0, b"")


def test_where_metrics_are_off_there_are_none(start_once):
    server = start_once()
    chat = server.chat()
    chat.say(chat.new_session(), "hello")
    assert chat.http.get(f"{server.url}/metrics").status_code == 404
    answer = chat.http.get("/metrics")
    assert answer.status_code == 404
    assert "MOCHI_METRICS" in answer.json()["error"]["message"]
