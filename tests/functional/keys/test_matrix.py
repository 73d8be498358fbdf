"""Who asks with ids of somebody else is told that there is no such thing."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import httpx
import pytest

from mochi_project.principal import Scope
from tests.functional.conftest import MODEL, Event, block, read_events
from tests.functional.keys.conftest import House, Person, files_below, plant
from tests.functional.keys.requests import Ask, Ids, asks, more_asks, plain, unknown

SECRET = "planted7q"  # not hexadecimal: it is not taken for an id
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def anna(house: House) -> Person:
    """Return somebody with things of all kinds."""
    person = house.person("anna")
    plant(person, SECRET)
    return person


@pytest.fixture(scope="module")
def ben(house: House, anna: Person) -> Person:
    """Return somebody else, who has nothing yet."""
    return house.person("ben")


@pytest.fixture(scope="module")
def document(house: House) -> dict[str, Any]:
    answer = httpx.get(f"{house.server.url}/api/v1/openapi.json", trust_env=False)
    return dict(answer.json())


def send(person: Person, ask: Ask) -> tuple[int, str]:
    """Return the status and the answer; of streams without an end what comes first."""
    request = person.http.build_request(
        ask.method,
        ask.path,
        params=ask.params or None,
        headers=ask.headers,
        json=ask.json,
        content=ask.content,
    )
    answer = person.http.send(request, stream=True)
    try:
        if ask.path.endswith("/events") and answer.status_code == 200:
            first: Event = next(read_events(answer))
            return answer.status_code, f"{first.name} {first.data}"
        answer.read()
        return answer.status_code, answer.text
    finally:
        answer.close()


def test_what_was_planted_is_found_by_its_owner(
    house: House, anna: Person, document: dict[str, Any]
) -> None:
    reading = [ask for ask in asks(document, anna.ids) if ask.method == "GET"]
    found = {ask.operation: send(anna, ask) for ask in reading if ask.operation != "reattach"}

    secret = {name for name, (status, text) in found.items() if SECRET in text and status == 200}
    assert secret >= {
        *("get_session", "list_sessions", "list_messages", "search", "export_session"),
        *("get_agent_chat", "download_attachment", "list_confirmations", "get_inbox"),
        *("ui_messages", "openai_get_response", "openai_list_input_items"),
        *("openai_list_conversation_items", "openai_get_conversation_item"),
    }


def asks_everywhere(document: dict[str, Any], ids: Ids) -> Iterator[Ask]:
    """Yield requests of all operations, also where they are offered a second time."""
    for ask in asks(document, ids):
        yield ask
        if ask.path.startswith("/v1/"):
            yield replace(ask, path=f"/ollama{ask.path}")
    yield from more_asks(ids)


def test_ids_of_others_are_as_unknown_as_those_of_nobody(
    house: House, anna: Person, ben: Person, document: dict[str, Any]
) -> None:
    folder = house.server.data_dir / "users" / "anna"
    before = files_below(folder)
    assert len(before) > 20
    others = unknown(anna.ids)
    named = {value for name, value in anna.ids.items() if others[name] != value}
    leaks, differences = [], []
    while '"ready"' not in ben.http.get("/api/v1/search", params={"q": "x"}).text:
        pass  # the index is made with the first search
    hers = {**anna.ids, "file": "a new one"}  # or he would have what she uploaded, too
    pairs = zip(asks_everywhere(document, hers), asks_everywhere(document, others), strict=True)
    for theirs, nobodys in pairs:
        answers = send(ben, theirs), send(ben, nobodys)
        texts = plain(answers[0][1], anna.ids), plain(answers[1][1], others)
        if SECRET in answers[0][1] or any(value in answers[1][1] for value in (SECRET, *named)):
            leaks.append((str(theirs), answers))
        if (answers[0][0], texts[0]) != (answers[1][0], texts[1]):
            differences.append((str(theirs), answers))
    assert leaks == []
    assert differences == [], "\n".join(map(str, differences))
    after = files_below(folder)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert {name for name in changed if not name.startswith(".mochi/search")} == set()


def test_the_names_that_clients_choose_are_those_of_each_owner(
    anna: Person, ben: Person, house: House
) -> None:
    cara = house.person("cara")
    plant(cara, "another7q")
    everywhere = {name: (anna.ids[name], cara.ids[name]) for name in anna.ids}
    chosen = {name for name, (one, other) in everywhere.items() if one == other}
    assert chosen == {"chat_id", "thread_id"}
    for path in ("/api/v1/ui/chat/chat-7f3k9a/messages", "/api/v1/sessions", "/api/v1/export"):
        assert SECRET not in cara.http.get(path).text
        assert "another7q" not in anna.http.get(path).text
        assert "another7q" not in ben.http.get(path).text
    same = ben.http.post("/api/v1/attachments", content=anna.ids["file"].encode())
    assert same.json()["id"] == anna.ids["attachment_id"]


def test_the_stream_of_changes_tells_of_its_owner_alone(anna: Person, ben: Person) -> None:
    with ben.http.stream("GET", "/api/v1/events") as answer:
        events = read_events(answer)
        assert next(events).name == "reset"
        hers = anna.post("/api/v1/sessions", {"model": MODEL, "title": SECRET}).json()
        his = ben.post("/api/v1/sessions", {"model": MODEL, "title": "his"}).json()
        for event in events:
            assert hers["session_id"] not in str(event)
            if his["session_id"] in str(event):
                break


SCOPES = get_args(Scope)


@pytest.fixture(scope="module")
def keyring(house: House) -> dict[str, tuple[Person, Person]]:
    """Return for each scope somebody who has no other one, and somebody who has all others."""
    return {
        scope: (
            house.person(f"only-{scope}", scopes=[scope]),
            house.person(f"not-{scope}", scopes=[each for each in SCOPES if each != scope]),
        )
        for scope in SCOPES
    }


def test_an_operation_is_for_keys_with_its_scope(
    anna: Person, document: dict[str, Any], keyring: dict[str, tuple[Person, Person]]
) -> None:
    wrong = []
    for ask in asks_everywhere(document, unknown(anna.ids)):
        if ask.scope == "none":
            continue
        only, others = keyring[ask.scope]
        status, text = send(others, ask)
        if (status, f"'{ask.scope}'" in text) != (403, True):
            wrong.append((str(ask), status, text[:200]))
        status, text = send(only, ask)
        if status in {401, 403} and "scope" in text and "approve" not in text:
            wrong.append((str(ask), status, text[:200]))
    assert wrong == []


def test_who_may_not_approve_leaves_the_turn_waiting(
    anna: Person, house: House, document: dict[str, Any]
) -> None:
    helper = house.person("anna", scopes=["read", "chat", "write"])
    answering = {"confirm_tool", "ui_chat", "run_agui"}
    for ask in asks(document, {**anna.ids, "session_id": anna.ids["busy_id"]}):
        if ask.operation in answering:
            status, text = send(helper, ask)
            assert status == 403, (str(ask), text)
            assert "'approve'" in text
    relaxed = {"model": MODEL, "tool_settings": {"execution_policy": "never_confirm"}}
    assert helper.http.post("/api/v1/sessions", json=relaxed).status_code == 403
    path = f"/api/v1/chat/{anna.ids['busy_id']}/confirmations"
    [asked] = helper.http.get(path).json()["confirmations"]
    assert asked["confirmation_id"] == anna.ids["confirmation_id"]


def test_who_may_not_approve_weakens_no_policy_of_a_session(house: House) -> None:
    frida, helper = house.person("frida"), house.person("frida", scopes=["read", "chat", "write"])
    strict = {"tools": ["note"]}
    weaker = {**strict, "execution_policy": "confirm_destructive"}
    session = frida.post("/api/v1/sessions", {"model": MODEL, "tool_settings": strict}).json()
    path = f"/api/v1/sessions/{session['session_id']}"

    refused = helper.http.patch(path, json={"tool_settings": weaker})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert frida.http.patch(path, json={"tool_settings": weaker}).status_code == 200
    for each in (weaker, strict):
        assert helper.http.patch(path, json={"tool_settings": each}).status_code == 200


def test_a_key_for_some_models_uses_and_sees_no_others(house: House) -> None:
    dora = house.person("dora", models=["llama3.2:3b"])
    full = house.person("dora")
    session_id = full.post("/api/v1/sessions", {"model": MODEL}).json()["session_id"]
    hello = [{"role": "user", "content": "Hello!"}]
    refused = [
        ("/api/v1/sessions", {"model": MODEL}),
        ("/api/v1/chat", {"model": MODEL, "message": "Hello!"}),
        ("/api/v1/chat/stream", {"model": f"ollama:{MODEL}", "message": "Hello!"}),
        (f"/api/v1/chat/{session_id}", {"message": "Hello!"}),
        (f"/api/v1/chat/{session_id}", {"message": "Hello!", "when_busy": "queue"}),
        ("/v1/chat/completions", {"model": MODEL, "messages": hello}),
        ("/v1/responses", {"model": MODEL, "input": "Hello!"}),
        ("/v1/messages", {"model": MODEL, "max_tokens": 9, "messages": hello}),
        ("/ollama/api/chat", {"model": MODEL, "messages": hello}),
    ]
    for path, body in refused:
        answer = dora.http.post(path, json=body)
        assert (path, answer.status_code) == (path, 403)
        assert "not for model" in answer.text
    busy = full.post(
        "/api/v1/sessions", {"model": MODEL, "tool_settings": {"tools": ["note"]}}
    ).json()["session_id"]
    asks_first = block({"tool_call": [{"name": "note", "args": {"text": "x"}}]}, per_request=True)
    until = "tool_call_confirmation_required"
    path = f"/api/v1/chat/{busy}"
    full.say(f"{path}/stream", {"message": asks_first, "detached": True}, until)
    answer = dora.http.post(path, json={"message": "Hello!", "when_busy": "queue"})
    assert (answer.status_code, "not for model" in answer.text) == (403, True)
    listed = [dora.http.get(path).text for path in ("/api/v1/models", "/v1/models")]
    assert not any(MODEL in text for text in listed)
    assert dora.http.get(f"/api/v1/sessions/{session_id}/status").status_code == 200
