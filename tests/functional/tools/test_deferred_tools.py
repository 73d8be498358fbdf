"""Tools whose schemas the model loads itself, over HTTP."""

from tests.functional.chat.conftest import TOOL


def test_the_list_of_tools_that_can_be_loaded_is_counted(start, script):
    server = start(MOCHI_TOOL_TOKENS="10")
    folder = server.data_dir / "tools"
    folder.mkdir(exist_ok=True)
    (folder / "notes.py").write_text(TOOL)
    chat = server.chat()
    session_id = chat.new_session(tool_settings={"tools": ["note"]})
    chat.say(session_id, script("Hello."))
    context = chat.http.get(f"/sessions/{session_id}/context").json()
    assert context["messages"][0]["role"] == "system"
    plain = chat.new_session()
    chat.say(plain, script("Hello."))
    without = chat.http.get(f"/sessions/{plain}/context").json()
    assert [message["role"] for message in without["messages"]] == ["user", "assistant"]
    assert context["estimate"]["tokens"] > without["estimate"]["tokens"]
