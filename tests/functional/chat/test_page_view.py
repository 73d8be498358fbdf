"""`GET /sessions/{id}?view=page`: all that a page shows, of one moment, in one answer."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.conftest import names_of, read_events, text_of


def page_of(chat, session_id):
    answer = chat.http.get(f"/sessions/{session_id}", params={"view": "page"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def shown_by(chat, page):
    """Return the texts that a page shows: of its messages, and of the turn it then follows."""
    texts = [message["content"] for message in page["messages"]]
    if page["position"] is not None:
        events = chat.reattach(page["session_id"], after=page["position"])
        assert events[0].data["turn_id"] == page["active_turn"]["turn_id"]
        texts.append(text_of(events))
    return texts


def test_a_page_of_an_idle_session_is_the_session(chat, script):
    session_id = chat.new_session(system_prompt="Be brief.")
    chat.say(session_id, script("Paris."))
    page = page_of(chat, session_id)
    extra = {"active_turn": None, "confirmations": [], "position": None}
    assert page == chat.http.get(f"/sessions/{session_id}").json() | extra
    assert page["state"] == "idle"


def test_a_page_goes_on_with_the_turn_that_runs(chat, script):
    session_id = chat.new_session()
    chat.say(session_id, script("First."))
    question = script(["Sec", "ond."], stall_seconds=5, stall_after=1)
    with chat.stream(session_id, message=question, detached=True) as events:
        next(events)
        page = page_of(chat, session_id)
        assert page["state"] == "running"
        assert page["active_turn"]["first_message_id"] == page["messages"][-1]["message_id"]
        assert shown_by(chat, page)[1:] == ["First.", question, "Second."]


def test_an_answer_that_is_made_again_is_not_shown_beside_its_stream(chat, script):
    session_id = chat.new_session()
    question = script(["Ag", "ain."], stall_seconds=5, stall_after=1)
    chat.say(session_id, question)
    with chat.stream(session_id, detached=True) as events:
        next(events)
        page = page_of(chat, session_id)
        assert page["state"] == "running"
        assert shown_by(chat, page) == [question, "Again."]


def test_a_page_has_the_questions_that_are_open(two_workers, calls, script):
    chat = two_workers.chat()
    session_id = chat.new_session(tool_settings={"tools": ["note"]})
    question = script(calls(("note", {"text": "x"})), "Noted.", per_request=True)
    with chat.stream(session_id, message=question, detached=True) as events:
        for event in events:
            if event.name == "tool_call_confirmation_required":
                break
        pages = [page_of(two_workers.chat_with(it), session_id) for it in two_workers.web_processes]
        for page in pages:
            assert page["state"] == "awaiting_approval"
            assert [message["content"] for message in page["messages"]] == [question]
            [asked] = page["confirmations"]
            assert asked["confirmation_id"] == event.data["confirmation_id"]
        decision = {"confirmation_id": asked["confirmation_id"], "approved": True}
        chat.http.post(f"/chat/{session_id}/confirm-tool", json=decision).raise_for_status()
        assert names_of(list(events))[-1] == "done"
    assert shown_by(chat, page_of(chat, session_id))[-1] == "Noted."


def test_another_view_is_refused(chat):
    answer = chat.http.get(f"/sessions/{chat.new_session()}", params={"view": "list"})
    assert (answer.status_code, answer.json()["error"]["details"]["field"]) == (422, "view")


@pytest.mark.parametrize("how", ["said", "regenerated", "with a tool"])
def test_a_page_never_lacks_an_answer_and_its_stream(two_workers, calls, script, how):
    """Read in both processes while turns begin and end: each question has an answer, once."""
    chat, over = two_workers.chat(), threading.Event()
    settings = {"tools": ["note"], "execution_policy": "never_confirm"}
    session_id = chat.new_session(tool_settings=settings)
    question = script(["Y", "es."], stall_seconds=0.05, stall_after=1)
    if how == "with a tool":
        question = script(calls(("note", {"text": "x"})), "Yes.", per_request=True)
    chat.say(session_id, question)

    seen = set()

    def read():
        reader = two_workers.chat()
        while not over.is_set():
            page = page_of(reader, session_id)
            texts = [
                message["content"]
                for message in page["messages"]
                if message["role"] != "tool" and not message.get("tool_calls")
            ]
            if page["position"] is not None:
                path, after = f"/chat/{session_id}/stream", {"after": page["position"]}
                with reader.http.stream("GET", path, params=after) as answer:
                    first = next(read_events(answer)).data
                    if first["turn_id"] != page["active_turn"]["turn_id"]:
                        continue  # a newer one: the page is read again
                texts.append("Yes.")
            assert texts == [question, "Yes."] * (len(texts) // 2), page
            seen.add("idle" if page["position"] is None else "running")

    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for number in range(200):
                chat.say(session_id, None if how == "regenerated" else question)
                if number > 10 and len(seen) == 2:
                    break
        finally:
            over.set()
        for reader in readers:
            reader.result()
    assert seen == {"idle", "running"}
