"""A long result of a function: kept whole, and read on by the model, also after a restart."""

import hashlib
from collections.abc import Callable
from typing import Any

FOLDER = '''
__all__ = ["numbers"]
__destructive__ = []


def numbers(count: int) -> str:
    """List numbers."""
    return "\\n".join(f"number {number}" for number in range(1, count + 1))
'''
TEXT = "\n".join(f"number {number}" for number in range(1, 250_001)).encode()
RESULT = hashlib.sha256(TEXT).hexdigest()[:16]


def calls(script: Callable[..., str], *each: tuple[str, dict[str, Any]]) -> str:
    steps = [{"tool_call": [{"name": name, "args": args}]} for name, args in each]
    return script(*steps, "Done.", per_request=True)


def results(events: list[Any]) -> list[str]:
    return [event.data["result"] for event in events if event.name == "tool_result"]


def test_a_result_of_megabytes_is_read_in_parts_in_its_turn_and_after_a_restart(
    start: Callable[..., Any], script: Callable[..., str]
) -> None:
    first = start()
    (first.data_dir / "tools").mkdir()
    (first.data_dir / "tools" / "numbers.py").write_text(FOLDER)
    chat = first.chat()
    chat.wait_for_tool("numbers")
    session_id = chat.new_session(
        tool_settings={"tools": ["numbers"], "execution_policy": "never_confirm"}
    )
    search = ("read_result", {"id": RESULT, "search": "99999$", "context": 1})

    events = chat.say(session_id, calls(script, ("numbers", {"count": 250_000}), search))

    excerpt, found = results(events)
    assert excerpt.startswith("number 1\nnumber 2\n")
    assert f"[{len(TEXT):,} bytes in 250,000 lines were kept. Read parts with" in excerpt
    assert found == (
        "99998- number 99998\n99999: number 99999\n100000- number 100000\n--\n"
        "199998- number 199998\n199999: number 199999\n200000- number 200000\n[Matches: 2.]"
    )
    [message] = [m for m in chat.messages(session_id) if m.get("attachments")]
    [whole] = message["attachments"]
    assert (whole["name"], whole["size"]) == ("numbers (whole result).txt", len(TEXT))
    assert chat.http.get(f"/attachments/{whole['id']}").content == TEXT
    assert len((first.data_dir / "chat_sessions" / f"{session_id}.json").read_bytes()) < 50_000
    first.kill()
    chat = start().chat()

    lines = ("read_result", {"id": RESULT, "from_line": 250_000})
    events = chat.say(session_id, calls(script, lines))

    assert results(events) == ["number 250000\n[Lines 250,000 to 250,000 of 250,000.]"]
