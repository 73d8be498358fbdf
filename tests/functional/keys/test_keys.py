"""Keys are made, listed, rotated and revoked over HTTP, by who may."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.functional.conftest import MODEL, NO_TLS, Server, StartServer, block
from tests.functional.keys.conftest import House, folder_of

pytestmark = pytest.mark.slow


def client(server: Server, token: str | None = None) -> httpx.Client:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(
        base_url=f"{server.url}/api/v1", headers=headers, timeout=60, trust_env=False, verify=NO_TLS
    )


@pytest.fixture
def server(start: StartServer) -> Server:
    return start()


@pytest.fixture
def anybody(server: Server) -> Iterator[httpx.Client]:
    """Return a client without a key."""
    with client(server) as http:
        yield http


def made(http: httpx.Client, **body: Any) -> Any:
    answer = http.post("/keys", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_the_first_key_closes_the_door_and_changes_nothing_that_was_there(
    server: Server, anybody: httpx.Client
) -> None:
    before = anybody.post("/sessions", json={"model": MODEL}).json()["session_id"]
    files = {path for path in server.data_dir.rglob("*.json") if "chat_sessions" in path.parts}
    boss = made(anybody, owner="default", scopes=["admin", "read"], name="me")

    assert anybody.get("/sessions").status_code == 401
    assert anybody.get("/health").json() == {"status": "ok"}
    with client(server, boss["token"]) as admin:
        assert [each["session_id"] for each in admin.get("/sessions").json()["sessions"]] == [
            before
        ]
        listed = admin.get("/keys")
        assert [key["name"] for key in listed.json()["keys"]] == ["me"]
        assert boss["token"] not in listed.text
        assert "sha256" not in listed.text
        assert admin.get("/sessions", headers={"X-Mochi-Owner": "anna"}).json()["total"] == 0
    assert all(path.exists() for path in files)


def test_a_key_is_rotated_and_revoked_over_http(server: Server, anybody: httpx.Client) -> None:
    for time in (0, "0", "2026-11-28T18:00:00", "tomorrow"):
        assert anybody.post("/keys", json={"owner": "anna", "expires_at": time}).status_code == 422
    boss = made(anybody, owner="default", scopes=["admin"], expires_at="2099-01-01T00:00:00Z")
    with client(server, boss["token"]) as admin:
        annas = made(admin, owner="anna")
        assert admin.post(f"/keys/{annas['id']}x/rotate").status_code == 404
        rotated = admin.post(f"/keys/{annas['id']}/rotate").json()
        with client(server, annas["token"]) as old, client(server, rotated["token"]) as anna:
            assert old.get("/sessions").status_code == 401
            assert anna.get("/sessions").status_code == 200
            revoked = admin.delete(f"/keys/{annas['id']}").json()
            assert revoked["ended"]
            assert revoked["revoked_at"] is not None
            assert anna.get("/sessions").status_code == 401
            assert admin.get("/sessions").status_code == 403


def test_a_broken_file_is_told_and_the_last_good_keys_hold(
    server: Server, anybody: httpx.Client
) -> None:
    boss = made(anybody, owner="default", scopes=["admin", "read"])
    with client(server, boss["token"]) as admin:
        admin.get("/sessions").raise_for_status()
        (server.data_dir / "keys.json").write_text("{")
        answer = admin.get("/keys")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "KEYS_INVALID")
        assert admin.get("/sessions").status_code == 200


def test_a_turn_that_goes_on_after_a_kill_ends_with_its_key(start: StartServer) -> None:
    server = start(MOCHI_ON_CRASH="continue")
    folder_of(server)
    house = House(server)
    first, second = house.person("anna"), house.person("anna")
    body = {"model": MODEL, "tool_settings": {"tools": ["note"]}}
    session_id = first.post("/api/v1/sessions", body).json()["session_id"]
    asks = block({"tool_call": [{"name": "note", "args": {"text": "x"}}]}, per_request=True)
    path, until = f"/api/v1/chat/{session_id}/stream", "tool_call_confirmation_required"
    first.say(path, {"message": asks, "detached": True}, until)

    server.kill()
    house.store.revoke(first.key_id)
    again = start(MOCHI_ON_CRASH="continue")
    with client(again, second.token) as http:
        with http.stream("GET", f"/chat/{session_id}/stream") as answer:
            lines = list(answer.iter_lines())
        assert "event: cancelled" in lines
        assert http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None
    for person in house.people:
        person.http.close()
