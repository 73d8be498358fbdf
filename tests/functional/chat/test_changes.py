"""Two tabs agree about their sessions through the stream of changes alone, on any worker."""

from contextlib import suppress

import httpx
import pytest

from tests.functional.tabs import Tab


@pytest.fixture(scope="module")
def server(two_workers):
    return two_workers


@pytest.fixture
def tabs(server):
    """Return a tab at each of the two web processes."""
    tabs = [Tab(server.chat_with(worker)) for worker in server.web_processes]
    yield tabs
    for tab in tabs:
        tab.leave()


def all_show(tabs, session_id, **wanted):
    for tab in tabs:
        tab.wait_until(lambda tab: wanted.items() <= tab.sessions.get(session_id, {}).items())


def test_tabs_on_two_workers_agree_about_sessions_and_turns(tabs, server, chat, script):
    session_id = chat.new_session()
    all_show(tabs, session_id, state="idle", message_count=0)
    chat.http.patch(f"/sessions/{session_id}", json={"title": "The sea"}).raise_for_status()
    all_show(tabs, session_id, title="The sea")
    body = {"message": script(["Half ", "an answer"], stall_after=1, stall_seconds=600)}
    with chat.stream(session_id, **body, detached=True) as events:
        next(events)
        all_show(tabs, session_id, state="running", message_count=1)
        assert chat.http.get("/sessions?state=running").json()["total"] == 1
        server.chat().cancel(session_id).raise_for_status()
    for tab in tabs:
        tab.wait_until(lambda tab: "turn_ended" in tab.names)
        assert tab.state_of(session_id) == "idle"
        assert tab.names.count("turn_started") == 1
    listed = {one["session_id"]: one for one in chat.http.get("/sessions").json()["sessions"]}
    for tab in tabs:
        tab.wait_until(lambda tab: tab.sessions == listed)
    chat.http.delete(f"/sessions/{session_id}").raise_for_status()
    for tab in tabs:
        tab.wait_until(lambda tab: session_id not in tab.sessions)


def test_a_question_shows_in_every_tab_until_it_is_answered(tabs, chat, script):
    chat.wait_for_tool("note")
    session_id = chat.new_session(tool_settings={"tools": ["note"]})
    call = {"tool_call": [{"name": "note", "args": {"text": "x"}}]}
    message = script(call, "Noted.", per_request=True)
    with chat.stream(session_id, message=message, detached=True) as events:
        asked = next(each for each in events if each.name == "tool_call_confirmation_required")
        all_show(tabs, session_id, state="awaiting_approval")
        for tab in tabs:
            tab.wait_until(lambda tab: "turn_waiting" in tab.names)
        answer = {"confirmation_id": asked.data["confirmation_id"], "approved": False}
        chat.http.post(f"/chat/{session_id}/confirm-tool", json=answer).raise_for_status()
        for _ in events:
            pass
    for tab in tabs:
        tab.wait_until(lambda tab: tab.state_of(session_id) == "idle")


def test_a_turn_of_a_killed_worker_ends_in_the_tabs_of_others(server, script):
    owner, other = server.web_processes
    tab, chat = Tab(server.chat_with(other)), server.chat_with(owner)
    session_id = chat.new_session()
    body = {"message": script(["Half ", "an answer"], stall_after=1, stall_seconds=600)}
    with suppress(httpx.TransportError), chat.stream(session_id, **body) as events:
        next(events)
        all_show([tab], session_id, state="running")
        owner.kill()
        for _ in events:
            pass
    # A change that comes before it may say already that nothing runs any more.
    tab.wait_until(lambda tab: "turn_ended" in tab.names)
    assert tab.state_of(session_id) == "idle"
    tab.leave()


def test_a_tab_goes_on_after_a_restart_where_it_was(start):
    server = start(MOCHI_MAX_LISTENERS="1")
    first = Tab(server.chat())
    refused = Tab(server.chat()).refused
    assert refused is not None
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "TOO_MANY_LISTENERS"
    first.leave()  # and its place is free, as soon as the server notices
    while (tab := Tab(server.chat())).refused is not None:
        pass
    session_id = tab.chat.new_session(title="Before")
    tab.wait_until(lambda tab: session_id in tab.sessions)
    server.stop()  # which ends the stream
    tab.wait_for_end()

    again = start()
    chat = again.chat()
    chat.http.patch(f"/sessions/{session_id}", json={"title": "Meanwhile"}).raise_for_status()
    back = Tab(chat, after=tab.last_id)
    back.wait_until(lambda tab: tab.events)
    assert back.names == ["session_changed"]
    assert back.sessions[session_id]["title"] == "Meanwhile"
    back.leave()
    assert chat.http.get("/events", params={"after": "nonsense"}).status_code == 422
