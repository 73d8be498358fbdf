"""Keys in one record, which several processes may change."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mochi_project.configuration.loading import load_settings
from mochi_project.keys.key import hash_of, new_key
from mochi_project.keys.store import KeyNotFound, KeysInvalid, KeyStore, keys_directory
from mochi_project.trust.decision import Trust
from sessions_app.store.file_records import FileRecords


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(FileRecords(tmp_path))


def test_a_key_is_kept_privately_without_its_token(store: KeyStore, tmp_path: Path) -> None:
    key, token = new_key(owner="anna", name="anna's phone")
    store.add(key)

    file = tmp_path / "keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token.partition("_")[2].rpartition("_")[2] not in file.read_text()
    assert token.startswith(f"mochi_{key.id}_")
    assert len(token.removeprefix(f"mochi_{key.id}_")) == 43
    assert store.keys() == {key.id: key}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys.json"]


def test_who_changes_keys_at_once_loses_none(tmp_path: Path) -> None:
    made = [new_key(owner=f"owner-{number}")[0] for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda key: KeyStore(FileRecords(tmp_path)).add(key), made))

    assert set(KeyStore(FileRecords(tmp_path)).keys()) == {key.id for key in made}


def test_a_revoked_key_is_listed_and_has_no_other_token(store: KeyStore) -> None:
    key = store.add(new_key(owner="anna")[0])

    revoked = store.revoke(key.id, keep_turns=True)

    assert revoked.revoked_at is not None
    assert revoked.keeps_turns
    assert store.revoke(key.id) == revoked
    assert store.keys() == {key.id: revoked}
    with pytest.raises(KeyNotFound):
        store.rotate(key.id)


def test_a_rotated_key_has_another_token_and_is_the_same_key(store: KeyStore) -> None:
    key, old = new_key(owner="anna", scopes=["read"])
    store.add(key)

    rotated, token = store.rotate(key.id)

    assert token != old
    assert store.keys()[key.id] == rotated
    assert rotated.hash == hash_of(token.encode())
    assert (rotated.id, rotated.scopes) == (key.id, key.scopes)


@pytest.mark.parametrize("change", [KeyStore.revoke, KeyStore.rotate])
def test_there_is_no_key_but_those_that_were_made(store: KeyStore, change: Any) -> None:
    with pytest.raises(KeyNotFound, match="k00000000"):
        change(store, "k00000000")


def entry(**changes: Any) -> dict[str, Any]:
    usual = {
        "id": "k3f9a2b1c",
        "hash": "sha256:" + 64 * "0",
        "owner": "anna",
        "scopes": ["read"],
        "created_at": "2026-11-28T18:00:00Z",
    }
    return {**usual, **changes}


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"version": 2, "keys": []}',
        json.dumps({"version": 1, "keys": [entry(scopes=["raed"])]}),
        json.dumps({"version": 1, "keys": [entry(scopes=[])]}),
        json.dumps({"version": 1, "keys": [entry(owner="../anna")]}),
        json.dumps({"version": 1, "keys": [entry(owner="anna\n")]}),
        json.dumps({"version": 1, "keys": [entry(hash="secret")]}),
        json.dumps({"version": 1, "keys": [entry(expires_at="2026-11-28T18:00:00")]}),
        json.dumps({"version": 1, "keys": [entry(), entry()]}),
    ],
)
def test_a_file_that_means_nothing_certain_is_refused_whole(
    store: KeyStore, tmp_path: Path, content: str
) -> None:
    (tmp_path / "keys.json").write_text(content)

    for use in (store.keys, lambda: store.add(new_key(owner="ben")[0])):
        with pytest.raises(KeysInvalid, match=r"keys\.json"):
            use()
    assert (tmp_path / "keys.json").read_text() == content


def test_what_a_newer_server_wrote_into_a_key_is_read(store: KeyStore, tmp_path: Path) -> None:
    keys = {"version": 1, "keys": [entry(colour="red")], "more": 1}
    (tmp_path / "keys.json").write_text(json.dumps(keys))

    assert store.keys()["k3f9a2b1c"].owner == "anna"


def test_keys_that_lie_in_a_folder_that_is_not_trusted_are_not_used(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    untrusted = settings.with_trust(Trust(folder=tmp_path, trusted=False))

    assert keys_directory(settings) == settings.resolved_data_dir
    assert not keys_directory(untrusted).is_relative_to(tmp_path)
