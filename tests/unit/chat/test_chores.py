"""The chores of conversations are done by the housekeeper, whatever kind of session they are of."""

import asyncio
import os
from pathlib import Path

import pytest

from chat.conversation_storage import SessionKind, Storages
from chat.storage.idempotency_keys import KeyRecord
from chat.storage.journal import line
from mochi_project.app import build_services
from mochi_project.background.housekeeping import Housekeeper
from mochi_project.configuration.loading import load_settings
from tests.services import do_chores
from tests.unit.chat.keys import keys_in

TEMPORARY = ".left.0123456789abcdef.tmp"
DIRECTORIES = (
    "system_prompts",
    "profiles",
    ".mochi",
    ".mochi/keys",
    ".mochi/confirmations/0123456789",
    "responses/0123456789",
    ".mochi/summaries",
    ".mochi/budgets",
    ".mochi/changes",
    ".mochi/turns/0123456789",
    "chat_sessions",
    "chat_sessions/.claims",
    "chat_sessions/.locks",
    "agents/agent_chats",
    "agents/agent_chats/.locks",
    ".mochi/ephemeral/sessions/.locks",
)


async def test_what_cut_off_writes_left_is_swept_wherever_files_are_written(tmp_path: Path) -> None:
    left = [tmp_path / directory / TEMPORARY for directory in DIRECTORIES]
    await asyncio.to_thread(_make_old_files, left)
    services = await asyncio.to_thread(lambda: build_services(load_settings(data_dir=tmp_path)))
    chores = asyncio.create_task((await asyncio.to_thread(services.get, Housekeeper)).run())
    try:
        async with asyncio.timeout(30):
            while any([await asyncio.to_thread(path.exists) for path in left]):
                await asyncio.sleep(0.01)
    finally:
        chores.cancel()
        await asyncio.wait([chores])
        await services.aclose()


@pytest.mark.allow_blocking
async def test_a_key_stays_while_a_turn_of_any_kind_of_session_has_a_journal(
    tmp_path: Path,
) -> None:
    services = build_services(load_settings(data_dir=tmp_path, turn_retention_seconds=60))
    keys = keys_in(tmp_path / ".mochi" / "keys")
    turns = {kind: f"{number:020x}" for number, kind in enumerate(SessionKind)}
    for kind, storage in services.get(Storages).items():
        held = keys.take(kind, "f")
        assert not isinstance(held, KeyRecord)
        held.keep("0123456789", turns[kind])
        held.release()
        writer = storage.journal.open("0123456789", turns[kind], owner="")
        writer.append(line(1, "done", "{}"))
        writer.close()
    held = keys.take("no journal", "f")
    assert not isinstance(held, KeyRecord)
    held.release()
    for path in (tmp_path / ".mochi" / "keys").iterdir():
        os.utime(path, (0, 0))
    await do_chores(services, lambda: keys.find("no journal") is None)
    assert {kind: found.turn_id for kind in SessionKind if (found := keys.find(kind))} == turns
    await services.aclose()


def _make_old_files(paths: list[Path]) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (0, 0))
