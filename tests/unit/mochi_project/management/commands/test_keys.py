"""``mochi-server keys``."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mochi_project.keys.key import hash_of
from mochi_project.keys.store import KeyStore
from sessions_app.store.file_records import FileRecords
from tests.services import install_services, services_of


@pytest.fixture(autouse=True)
def store(tmp_path: Path) -> Iterator[KeyStore]:
    store = KeyStore(FileRecords(tmp_path))
    install_services(services_of({KeyStore: store}))
    yield store
    install_services(None)


def run(*words: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("keys", *words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def run_for_scripts(*words: str) -> Any:
    return json.loads(run(*words, "--json")[0])


def test_a_token_is_printed_alone_and_once(store: KeyStore) -> None:
    out, err = run("add", "anna's phone", "--owner", "anna", "--scopes", "read, chat")

    [key] = store.keys().values()
    assert (key.name, key.owner, key.scopes) == ("anna's phone", "anna", ("read", "chat"))
    assert hash_of(out.strip().encode()) == key.hash
    assert f"key {key.id} of anna" in err
    assert out.strip() not in run("list")[0]


def test_keys_are_listed_revoked_and_rotated_by_scripts(store: KeyStore) -> None:
    made = run_for_scripts("add", "--models", "qwen3:*,openai:*", "--days", "30")
    assert (made["owner"], made["models"]) == ("default", ["qwen3:*", "openai:*"])
    assert made["expires_at"] > made["created_at"]

    rotated = run_for_scripts("rotate", made["id"])
    assert rotated["token"] != made["token"]
    assert hash_of(rotated["token"].encode()) == store.keys()[made["id"]].hash
    revoked = run_for_scripts("revoke", made["id"], "--keep-turns")
    assert revoked["ended"]
    assert store.keys()[made["id"]].keeps_turns
    assert run_for_scripts("list") == {"keys": [revoked]}
    assert "revoked" in run("list")[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "--scopes", "raed"], "raed"),
        (["add", "--owner", "../anna"], "owner"),
        (["add", "--models", ""], "models"),
        (["add", "--days", "0"], "--days"),
        (["revoke", "k00000000"], "k00000000"),
    ],
)
def test_what_makes_no_key_is_explained(words: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run(*words)
