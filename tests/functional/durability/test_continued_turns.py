"""``kill -9`` of the process that runs a turn: another one goes on with it, in the same stream."""

from contextlib import suppress

import httpx
import psutil
import pytest

from tests.functional.conftest import names_of, read_events, text_of
from tests.functional.durability.dying import TOOLS, Scene, Tools, calls, says, thinks, waits

CONTINUES = {"MOCHI_ON_CRASH": "continue"}
CONFIRM = "tool_call_confirmation_required"
INTERRUPTED = "interrupted, not run again"


@pytest.fixture
def tools(tmp_path):
    folder = tmp_path / "data" / "tools"
    folder.mkdir(parents=True)
    (folder / "own.py").write_text(TOOLS.format(place=str(tmp_path)))
    return Tools(tmp_path)


@pytest.fixture
def launch(tmp_path, start, upstream):
    """Return how to start servers that go on, in front of the model server of this module."""

    def start_server(*flags, **variables):
        variables = {**CONTINUES, **variables}
        return start(*(flags or ("--workers", "2")), MOCHI_OLLAMA_HOST=upstream.url, **variables)

    return start_server


@pytest.fixture
def model(upstream):
    """Return how to have the model behave when it is asked, one time after the other."""
    upstream.answers.clear()

    def script(*steps):
        left = list(steps)

        def behave(answer):
            step = left.pop(0)
            step(answer)

        upstream.behave = behave

    yield script
    upstream.behave = lambda answer: None


@pytest.fixture
def begin(launch, kill):
    def start_turn(*, policy="never_confirm", server=None, **settings):
        tool_settings = {"tools": ["write", "read"], "execution_policy": policy}
        return Scene(server or launch(), kill, tool_settings=tool_settings, **settings)

    return start_turn


def test_a_text_goes_on_in_the_stream_of_another_worker(begin, model, upstream, tools):
    model(says("Half", " an", ends=False), says(" answer."))
    turn = begin()
    turn.until("content_delta", 2)
    turn.kill_owner()
    messages = turn.end()
    assert names_of(turn.seen)[2:] == [
        *("content_delta", "turn_resumed", "content_delta", "message_complete", "done")
    ]
    [resumed], [whole], [started] = map(
        turn.of, ("turn_resumed", "message_complete", "turn_started")
    )
    assert (resumed["keeps"], resumed["reason"], resumed["attempt"]) == ("text", "process_died", 1)
    assert resumed["message_id"] == started["message_id"] == whole["message_id"]
    assert "discarded" not in resumed
    assert text_of(turn.seen) == whole["content"] == "Half an answer."
    assert [message["content"] for message in messages] == ["Hello!", "Half an answer."]
    asked = upstream.answers[-1].messages
    assert [(each["role"], each["content"]) for each in asked][-2:] == [
        ("user", "Hello!"),
        ("assistant", "Half an"),
    ]


def test_the_same_at_the_start_after_everything_died_with_nobody_listening(
    launch, model, eventually
):
    model(says("Half", ends=False), says(" an answer."))
    server = launch()
    chat = server.chat()
    session_id = chat.new_session()
    with chat.stream(session_id, message="Hello!", detached=True) as events:
        while next(events).name != "content_delta":
            pass
    server.kill()
    chat = launch().chat()
    eventually(lambda: len(chat.messages(session_id)) == 2)
    assert chat.messages(session_id)[-1]["content"] == "Half an answer."
    events = chat.reattach(session_id)
    assert text_of(events) == "Half an answer."
    assert names_of(events)[-2:] == ["message_complete", "done"]


def test_reasoning_is_begun_again_and_clients_are_told_what_to_drop(begin, model, upstream, tools):
    model(thinks("Hm."), says("An answer."))
    turn = begin()
    turn.until("thinking_delta")
    turn.kill_owner()
    messages = turn.end()
    [resumed], [started], [whole] = map(
        turn.of, ("turn_resumed", "turn_started", "message_complete")
    )
    assert (resumed["keeps"], resumed["discarded"]) == ("results", [started["message_id"]])
    assert resumed["message_id"] == whole["message_id"]
    assert [message["content"] for message in messages] == ["Hello!", "An answer."]
    assert upstream.answers[-1].messages[-1]["role"] == "user"


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_that_may_have_changed_something_is_a_question(
    begin, model, tools, upstream, eventually, approved
):
    model(calls("write"), says("It is done."))
    tools.hold()
    turn = begin()
    eventually(lambda: tools.runs == ["write"])
    turn.kill_owner()
    question = turn.until(CONFIRM)
    assert (question["reason"], question["tool_name"]) == ("may_have_run", "write")
    [listed] = turn.chat.http.get(f"/chat/{turn.session_id}/confirmations").json()["confirmations"]
    assert listed["reason"] == "may_have_run"
    assert tools.runs == ["write"]
    tools.release()
    turn.confirm(question, approved=approved)
    messages = turn.end()
    assert tools.runs == ["write"] * (2 if approved else 1)
    result = "did write" if approved else INTERRUPTED
    assert [message["content"] for message in messages][2:] == [result, "It is done."]
    assert upstream.answers[-1].messages[-1]["content"] == result
    assert len(upstream.answers) == 2


def test_a_call_that_only_reads_runs_again_once(begin, model, tools, kill, eventually):
    model(calls("read"), says("It is read."))
    tools.hold()
    turn = begin()
    eventually(lambda: tools.runs == ["read"])
    turn.kill_owner()
    turn.until("tool_call", 2)
    eventually(lambda: tools.runs == ["read", "read"])
    assert not turn.of(CONFIRM)
    tools.release()
    messages = turn.end()
    assert [message["content"] for message in messages][2:] == ["did read", "It is read."]


def test_one_that_was_killed_twice_is_given_up_and_the_turn_goes_on(
    launch, model, tools, eventually
):
    model(calls("read"), says("It can't be read."))
    tools.hold()
    server = launch("--workers", "1")
    chat = server.chat()
    settings = {"tools": ["read"], "execution_policy": "never_confirm"}
    session_id = chat.new_session(tool_settings=settings)
    with chat.stream(session_id, message="Hello!", detached=True) as events:
        next(events)
    for runs in (["read"], ["read", "read"]):
        eventually(lambda runs=runs: tools.runs == runs)
        server.kill()
        server = launch("--workers", "1")
    chat = server.chat()
    eventually(lambda: len(chat.messages(session_id)) == 4)
    assert [each["content"] for each in chat.messages(session_id)][2:] == [
        INTERRUPTED,
        "It can't be read.",
    ]
    assert tools.runs == ["read", "read"]


def test_a_question_is_the_same_in_another_process(begin, model, tools):
    model(calls("write"), says("It is done."))
    turn = begin(policy="always_confirm")
    before = turn.until(CONFIRM)
    turn.kill_owner()
    again = turn.until(CONFIRM, 2)
    assert again["confirmation_id"] == before["confirmation_id"]
    assert "reason" not in again
    turn.confirm(again, approved=True)
    turn.end()
    assert tools.runs == ["write"]


def test_after_results_the_model_is_asked_once_more_and_the_tools_not(
    begin, model, tools, upstream
):
    model(calls("write"), waits, says("It is done."))
    turn = begin()
    turn.until("tool_continuation_start")
    turn.kill_owner()
    messages = turn.end()
    assert tools.runs == ["write"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert upstream.answers[-1].messages[-1]["content"] == "did write"
    assert len(turn.of("message_complete")[0]["tool_calls"]) == 1


def is_finished(server, session_id):
    with suppress(httpx.TransportError):
        *_, last = server.chat().messages(session_id)
        is_whole = last["role"] == "assistant" and "interrupted" not in last
        return is_whole and last["content"].startswith("Half an answer.")


def errors_of(server, session_id):
    with suppress(httpx.TransportError):
        events = server.chat().reattach(session_id) or []
        return [event.data for event in events if event.name == "error"]


def test_a_turn_that_kills_its_process_is_given_up_and_others_are_finished(
    launch, upstream, tools, eventually
):
    """Each time that the model gets the result, all web processes die before it answers."""
    server = launch()
    upstream.answers.clear()

    def is_poison(answer):
        return answer.messages[-1]["role"] == "tool"

    def behave(answer):
        if is_poison(answer):
            for process in server.web_processes:
                process.kill()
            answer.wait_until_closed()
        elif answer.messages[-1]["content"] == "poison":
            calls("read")(answer)
        elif answer.messages[-1]["role"] == "user":
            answer.say("Half")
            answer.wait_until_closed()
        else:
            says(" an answer.")(answer)

    upstream.behave = behave
    chat = server.chat()
    others = [chat.new_session() for _ in range(3)]
    for session_id in others:
        with chat.stream(session_id, message="Hello!", detached=True) as events:
            while next(events).name != "content_delta":
                pass
    settings = {"tools": ["read"], "execution_policy": "never_confirm"}
    poisoned = chat.new_session(tool_settings=settings)
    with pytest.raises(httpx.TransportError):
        chat.say(poisoned, "poison", detached=True)

    eventually(lambda: sum(map(is_poison, upstream.answers)) == 3)
    for session_id in others:
        eventually(lambda each=session_id: is_finished(server, each))
    [error] = eventually(lambda: errors_of(server, poisoned))
    assert (error["code"], error["details"]["resumes"]) == ("TURN_INTERRUPTED", 2)
    assert sum(map(is_poison, upstream.answers)) == 3
    assert tools.runs == ["read"]


def test_a_turn_that_is_cancelled_meanwhile_is_cancelled(begin, model, tools):
    model(says("Half", ends=False), says(" more", ends=False), says(" never"))
    turn = begin()
    turn.until("content_delta")
    turn.kill_owner()
    answer = turn.chat.cancel(turn.session_id)
    assert answer.status_code == 200, answer.text
    messages = turn.end()
    assert names_of(turn.seen)[-2:] == ["cancelled", "done"]
    assert messages[-1]["cancelled"] is True
    assert messages[-1]["content"].startswith("Half")


@pytest.mark.parametrize(
    ("at_the_start", "after", "session"),
    [
        ("continue", "seal", {}),
        ("seal", "continue", {}),
        ("continue", "continue", {"on_crash": "seal"}),
    ],
    ids=["off since", "not on then", "not this session"],
)
def test_a_turn_is_sealed_where_it_may_not_go_on(
    launch, model, eventually, at_the_start, after, session
):
    model(says("Half", ends=False))
    server = launch(MOCHI_ON_CRASH=at_the_start)
    chat = server.chat()
    session_id = chat.new_session()
    if session:
        saved = chat.http.patch(f"/sessions/{session_id}", json=session).json()
        assert saved["on_crash"] == session["on_crash"]
    with chat.stream(session_id, message="Hello!", detached=True) as events:
        while next(events).name != "content_delta":
            pass
    server.kill()
    chat = launch(MOCHI_ON_CRASH=after).chat()
    eventually(lambda: len(chat.messages(session_id)) == 2)
    assert chat.messages(session_id)[-1]["interrupted"] is True
    assert names_of(chat.reattach(session_id))[-2:] == ["error", "done"]


def test_the_state_is_told_and_the_session_is_busy_until_it_ends(begin, model, tools):
    model(says("Half", ends=False), says(" an", ends=False))
    turn = begin(on_crash="continue")
    turn.until("content_delta")
    turn.kill_owner()
    active = turn.chat.http.get(f"/sessions/{turn.session_id}/status").json()["active_turn"]
    assert active["state"] in {"resuming", "generating"}
    turn.until("turn_resumed")
    active = turn.chat.http.get(f"/sessions/{turn.session_id}/status").json()["active_turn"]
    assert (active["state"], active["resumes"]) == ("generating", 1)
    busy = turn.chat.http.post(f"/chat/{turn.session_id}", json={"message": "And?"})
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "SESSION_BUSY")
    assert turn.chat.cancel(turn.session_id).status_code == 200
    turn.end()


def test_a_key_stands_for_the_continued_turn(launch, model, kill):
    model(says("Half", ends=False), says(" an answer."))
    server = launch()
    owner, other = server.web_processes
    chat, body = server.chat_with(owner), {"message": "Hello!", "on_crash": "continue"}
    session_id = chat.new_session()
    path, headers = f"/chat/{session_id}/stream", {"Idempotency-Key": "once"}
    with chat.http.stream("POST", path, json=body, headers=headers) as answer:
        events = read_events(answer)
        while next(events).name != "content_delta":
            pass
        again = server.chat_with(other)
        kill(psutil.Process(owner.pid))
    with again.http.stream("POST", path, json=body, headers=headers) as answer:
        events = list(read_events(answer))
    assert names_of(events)[-2:] == ["message_complete", "done"]
    assert text_of(events) == "Half an answer."
    assert [each["role"] for each in again.messages(session_id)] == ["user", "assistant"]
