"""Chats of the AI SDK that are followed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dialects_app.ai_sdk.chats import UIChats
from models_app.errors import ModelNotFound
from sessions_app.errors import MochiError, StorageUnavailable
from sessions_app.service import SessionManager

TURN = "0199f3a2b4c51f2e3d4c"


def chats(folder: Path, error: MochiError) -> UIChats:
    """Return chats of which one has a turn that can't be listened to."""

    async def active(_: str) -> Any:
        return SimpleNamespace(turn_id=TURN)

    async def answered(_: str) -> list[Any]:
        return []

    async def listen(*_: str) -> None:
        raise error

    async def space_with(_: str) -> Any:
        return SimpleNamespace(
            turns=SimpleNamespace(active=active, listen=listen),
            confirmations=SimpleNamespace(answered=answered),
        )

    chat: Any = SimpleNamespace(space_with=space_with)
    files: Any = None
    return UIChats(
        chat=chat,
        inbox=files,
        sessions=SessionManager(folder),
        attachments=files,
        settings=files,
        factory=files,
    )


async def test_a_turn_that_is_refused_meanwhile_has_no_stream(tmp_path: Path) -> None:
    assert await chats(tmp_path, ModelNotFound("qwen")).stream("a-chat") is None


async def test_a_store_that_is_away_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable):
        await chats(tmp_path, StorageUnavailable("away")).stream("a-chat")
