"""Budgets hold in every protocol, with two workers, and for many clients at once."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import openai
import pytest

from tests.functional.conftest import MODEL, NO_TLS, names_of
from tests.functional.dialects.completions import HELLO, TOOLS

CLIENTS = 32


class Shop:
    """A server of two workers, and its budgets; each test has a model of its own."""

    def __init__(self, server):
        self.server = server
        self.path = server.data_dir / "budgets.json"
        self.http = server.chat().http

    def allow(self, *budgets):
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps([{"period": "total", **budget} for budget in budgets]))
        written.replace(self.path)

    def standings(self):
        answer = self.http.get("/budgets")
        assert answer.status_code == 200, answer.text
        return answer.json()["budgets"]

    def ask(self, model, http=None):
        return (http or self.http).post("/chat", json={"model": model, "message": "Hello!"})


@pytest.fixture(scope="module")
def server(start_once):
    server = start_once(MOCHI_WORKERS="2")
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "own.py").write_text(TOOLS)
    (server.data_dir / "budgets.json").write_text("[]")
    shop = Shop(server)
    for worker in server.web_processes:  # each has seen that there is a file
        assert server.chat_with(worker).http.get("/budgets").json() == {"budgets": []}
    assert shop.standings() == []
    return server


@pytest.fixture
def shop(server):
    shop = Shop(server)
    yield shop
    shop.allow()


def refusal(answer):
    error = answer.json()["error"]
    return answer.status_code, error["code"]


def test_of_many_clients_at_two_workers_as_many_get_an_answer_as_may(shop):
    shop.allow({"scope": {"model": "openai:gpt-4o-mini"}, "requests": 10})
    one, other = shop.server.web_processes
    pinned = [shop.server.chat_with(worker).http for worker in (one, other, one, other)]
    clients = [*pinned, *(shop.server.chat().http for _ in range(CLIENTS - len(pinned)))]

    with ThreadPoolExecutor(CLIENTS) as threads:
        answers = list(threads.map(lambda http: shop.ask("openai:gpt-4o-mini", http), clients))

    assert sorted(answer.status_code for answer in answers) == [200] * 10 + [402] * 22
    (standing,) = shop.standings()
    assert (standing["spent"], standing["left"], standing["is_used_up"]) == (10, 0, True)


def test_a_turn_with_tools_ends_between_two_calls_with_what_it_has(shop, script):
    shop.allow({"scope": {"model": "qwen3:14b"}, "requests": 2})
    chat = shop.server.chat()
    session_id = chat.new_session(
        tool_settings={"tools": ["add"], "execution_policy": "never_confirm"}
    )
    adding = [{"tool_call": [{"name": "add", "args": {"a": n, "b": 1}}]} for n in range(3)]

    events = chat.say(session_id, script(*adding, "Done.", per_request=True))

    assert names_of(events)[-2:] == ["error", "done"]
    error = events[-2].data
    assert error["code"] == "BUDGET_EXCEEDED"
    assert error["details"]["retryable"] is False
    saved = chat.messages(session_id)
    assert [message["role"] for message in saved] == [
        *("user", "assistant", "tool", "assistant", "tool"),
    ]
    again = chat.http.post(f"/chat/{session_id}", json={"message": "And now?"})
    assert refusal(again) == (402, "BUDGET_EXCEEDED")
    assert chat.messages(session_id) == saved


def test_a_turn_that_is_stopped_has_spent_what_was_sent_and_what_came(shop, script):
    shop.allow({"scope": {"model": "qwen3:14b"}, "tokens": 1_000_000})
    chat = shop.server.chat()
    (before,) = shop.standings()

    for _ in range(2):
        session_id = chat.new_session()
        message = script(["word " * 400, "more"], stall_after=1, stall_seconds=600) + "y" * 2_000
        with chat.stream(session_id, message=message) as events:
            while next(events).name != "content_delta":
                pass
            assert chat.cancel(session_id).status_code == 200

    (after,) = shop.standings()
    assert after["spent"] - before["spent"] > 2 * (400 + 500)
    usage = chat.http.get("/usage", params={"group_by": "session"}).json()
    (group,) = (each for each in usage["groups"] if each["session_id"] == session_id)
    assert group["estimated_requests"] == 1
    assert group["input_tokens"] > 500
    assert group["output_tokens"] > 400


def test_a_turn_whose_first_call_is_refused_leaves_nothing(shop):
    shop.allow({"scope": {"provider": "anthropic"}, "tokens": 0})

    answer = shop.ask("anthropic:claude-3-haiku")

    assert refusal(answer) == (402, "BUDGET_EXCEEDED")
    details = answer.json()["error"]["details"]
    session_id = details.pop("session_id")
    assert details == {
        "scope": {"provider": "anthropic"},
        "period": "total",
        "unit": "tokens",
        "limit": 0,
        "spent": 0,
        "resets_at": None,
        "message_saved": False,
        "retryable": False,
    }
    assert shop.http.get(f"/sessions/{session_id}/messages").json()["messages"] == []


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("protocol", ["chat completions", "responses"])
def test_the_openai_package_asks_once(shop, protocol, streamed):
    shop.allow({"scope": {"model": "google:*"}, "cost_usd": "0"})
    requests = []
    with httpx.Client(
        trust_env=False, verify=NO_TLS, event_hooks={"request": [requests.append]}
    ) as http:
        client = openai.OpenAI(
            base_url=f"{shop.server.url}/v1", api_key="none", http_client=http, max_retries=5
        )
        model = "google:gemini-2.0-flash"
        ask = {
            "chat completions": partial(
                client.chat.completions.create, model=model, messages=[HELLO], stream=streamed
            ),
            "responses": partial(client.responses.create, model=model, input="Hi", stream=streamed),
        }
        with pytest.raises(openai.RateLimitError) as caught:
            ask[protocol]()

    assert len(requests) == 1
    assert (caught.value.code, caught.value.type) == ("insufficient_quota", "insufficient_quota")
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_pages_of_other_protocols_are_refused_with_402(shop):
    shop.allow({"requests": 0})
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hello!"}]}
    page = shop.http.post("/ui/chat", json={"id": "page", "model": MODEL, "messages": [message]})
    run = {"threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": []}
    thread = shop.http.post(
        "/agui",
        json={**run, "messages": [{"id": "1", "role": "user", "content": "Hi"}]}
        | {"forwardedProps": {"model": "qwen3:14b"}},
    )

    assert (page.status_code, page.headers["x-mochi-error"]) == (402, "BUDGET_EXCEEDED")
    assert refusal(thread) == (402, "BUDGET_EXCEEDED")


def test_a_warning_is_an_event_and_comes_once_from_a_worker(shop):
    shop.allow({"scope": {"model": "openai:gpt-5.1"}, "requests": 0, "action": "warn"})
    chat = shop.server.chat_with(shop.server.web_processes[0])
    session_id = chat.new_session(model="openai:gpt-5.1")

    first, second = chat.say(session_id, "Hello!"), chat.say(session_id, "Hello!")

    warnings = [event.data for event in first if event.data.get("state") == "warning"]
    assert len(warnings) == 1
    assert "0 requests in total for openai:gpt-5.1 is used up" in warnings[0]["message"]
    assert not [event for event in second if event.data.get("state") == "warning"]
    assert names_of(first)[-2:] == names_of(second)[-2:] == ["message_complete", "done"]


def test_a_broken_file_says_what_to_mend_and_a_mended_one_holds_at_once(shop):
    shop.path.write_text('[{"period": "week", "requests": 1}]')

    for answer in (shop.ask("qwen3:14b"), shop.http.get("/budgets")):
        assert refusal(answer) == (500, "BUDGETS_INVALID")
        assert (
            "`period` must be 'day', 'month' or 'total' (it is 'week')"
            in answer.json()["error"]["message"]
        )

    shop.allow()
    assert shop.ask("qwen3:14b").status_code == 200
