"""Conversations that a model finds and reads with built-in tools, in a real server."""

from collections.abc import Callable
from typing import Any

from tests.functional.recall.conftest import SECRET

Script = Callable[..., str]
WINDOW = 4096
TOOLS = ["search_conversations", "read_conversation", "expand_summary"]


def calling(script: Script, name: str, **arguments: Any) -> str:
    call = {"tool_call": [{"name": name, "args": arguments}]}
    return script(call, "Done.", per_request=True)


def results(events: list[Any]) -> list[dict[str, Any]]:
    return [event.data for event in events if event.name == "tool_result"]


def recalling(chat: Any, policy: str = "never_confirm", **settings: Any) -> str:
    settings = settings or {"tools": TOOLS}
    return chat.new_session(tool_settings={"execution_policy": policy, **settings})


def test_they_are_listed_and_offered_to_nobody_by_default(chat: Any, script: Script) -> None:
    listing = chat.http.get("/tools").json()
    assert listing["groups"] == {"recall": TOOLS}
    assert not any(listing["tools"][name]["destructive"] for name in TOOLS)
    session_id = chat.new_session()
    [result] = results(chat.say(session_id, calling(script, "search_conversations", query="a")))
    assert not result["success"]
    assert result["error_code"] == "TOOL_NOT_FOUND"


def test_what_was_said_elsewhere_is_found_and_read(chat: Any, script: Script, earlier: str) -> None:
    session_id = recalling(chat, tool_group="recall")
    [found] = results(
        chat.say(session_id, calling(script, "search_conversations", query="Hiiumaa", role="user"))
    )
    first = chat.messages(earlier)[0]
    assert f"1. session {earlier}, message {first['message_id']}, user," in found["result"]
    assert f'"Lighthouses": {SECRET}' in found["result"]
    [read] = results(
        chat.say(session_id, calling(script, "read_conversation", session_id=earlier, limit=1))
    )
    assert f'<record session="{earlier}" messages="0-0 of 2">' in read["result"]
    assert f"] {SECRET}\n</record>" in read["result"]


def test_a_search_finds_neither_itself_nor_what_earlier_ones_found(
    chat: Any, script: Script, earlier: str
) -> None:
    search = calling(script, "search_conversations", query="Hiiumaa 1531", limit=20)
    for session_id in (recalling(chat), recalling(chat)):
        [found] = results(chat.say(session_id, search))
        places = [line for line in found["result"].splitlines() if SECRET in line]
        assert places
        assert all(f"session {earlier}," in place for place in places)
        assert ", tool, " not in found["result"]
        assert f"session {session_id}," not in found["result"]
    chat.say(recalling(chat), calling(script, "read_conversation", session_id=earlier))
    role = calling(script, "search_conversations", query="Hiiumaa", role="tool")
    [found] = results(chat.say(recalling(chat), role))
    assert found["result"] == "Nothing was found."


def test_the_own_conversation_is_read_without_its_records(
    chat: Any, script: Script, earlier: str
) -> None:
    session_id = recalling(chat)
    chat.say(session_id, calling(script, "read_conversation", session_id=earlier))
    [read] = results(chat.say(session_id, calling(script, "read_conversation")))
    assert f'<record session="{session_id}"' in read["result"]
    assert "(an earlier record, which is not repeated)" in read["result"]
    assert f"] {SECRET}" not in read["result"]


def test_only_always_confirm_asks(chat: Any, script: Script, earlier: str) -> None:
    asking = calling(script, "read_conversation", session_id=earlier)
    events = chat.say(recalling(chat, "confirm_destructive"), asking)
    assert [result["success"] for result in results(events)] == [True]
    session_id = recalling(chat, "always_confirm")
    events = []
    with chat.stream(session_id, message=asking) as stream:
        for event in stream:
            events.append(event)
            if event.name == "tool_call_confirmation_required":
                decision = {"confirmation_id": event.data["confirmation_id"], "approved": False}
                chat.http.post(f"/chat/{session_id}/confirm-tool", json=decision)
    [result] = results(events)
    assert result["error_code"] == "TOOL_EXECUTION_DENIED"


def test_after_a_summary_the_exact_old_words_are_read(
    chat: Any, script: Script, server: Any
) -> None:
    session_id = chat.new_session(
        context_strategy="summarize_history",
        tool_settings={"tools": ["expand_summary"], "execution_policy": "never_confirm"},
    )
    patched = chat.http.patch(f"/sessions/{session_id}", json={"context_window": WINDOW})
    assert patched.status_code == 200
    words = "All work and no play makes Jack a dull boy. " * 40
    chat.say(session_id, "The password of my house is Kõpu.")
    for _ in range(8):
        chat.say(session_id, script(words))
    assert server.session_file(session_id)["metadata"]["context_state"]["summary"]

    events = chat.say(session_id, calling(script, "expand_summary", limit=1))

    [result] = results(events)
    assert "The password of my house is Kõpu." in result["result"]
    assert len(result["result"].encode()) <= WINDOW / 10 * 4
    [found] = results(
        chat.say(
            session_id,
            calling(script, "expand_summary", offset=1, limit=50),
        )
    )
    assert len(found["result"].encode()) <= WINDOW / 10 * 4


def test_what_is_unknown_is_said(chat: Any, script: Script) -> None:
    session_id = recalling(chat)
    unknown = calling(script, "read_conversation", session_id="0123456789")
    [result] = results(chat.say(session_id, unknown))
    assert (result["success"], result["error_code"]) == (False, "SESSION_NOT_FOUND")
    [result] = results(chat.say(session_id, calling(script, "expand_summary")))
    assert result["result"] == "Nothing is left out of this conversation's context."
    [result] = results(chat.say(session_id, calling(script, "search_conversations", limit=99)))
    assert result["error_code"] == "VALIDATION_ERROR"


def test_a_server_without_the_search_lists_why_it_can_not_search(start: Callable[..., Any]) -> None:
    chat = start(MOCHI_APPS_OFF="search_app", MOCHI_MCP_SERVER="true").chat()
    listing = chat.http.get("/tools").json()
    assert listing["groups"]["recall"] == ["read_conversation", "expand_summary"]
    reasons = {entry["name"]: entry["reason"] for entry in listing["invalid"]}
    assert "without the app that searches" in reasons["search_conversations"]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    tools = chat.http.post(chat.http.base_url.join("/mcp"), json=asked).json()["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["read_conversation", "expand_summary"]
