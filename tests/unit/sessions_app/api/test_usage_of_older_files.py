"""Answers of older files, which have two counts: shown with the usage of new ones."""

import asyncio
import json
from pathlib import Path

from django.test import AsyncClient

from chat.http.schemas import ChatMessageOut
from sessions_app.http import schemas
from sessions_app.service import SessionManager
from tests.unit.sessions_app.api.conftest import URL, shaped


async def test_answers_of_older_files_have_the_usage_that_new_ones_have(
    client: AsyncClient, manager: SessionManager, sessions_dir: Path
) -> None:
    session_id = (await asyncio.to_thread(manager.create, "qwen3:14b")).session_id
    counted = {"eval_count": 5, "prompt_eval_count": 120}
    answers = [
        {"role": "assistant", "content": "a", "model": "m", **counted},
        {"role": "assistant", "content": "b", "model": "m"},
    ]
    file = sessions_dir / f"{session_id}.json"
    document = json.loads(await asyncio.to_thread(file.read_text))
    variant = [dict(answers[0])]
    document["messages"] = [*answers, {**answers[0], "variants": [variant]}]
    before = json.dumps(document)
    await asyncio.to_thread(file.write_text, before)
    url = f"{URL}/{session_id}/messages?variants=true"
    first, second, third = shaped(await client.get(url), 200, schemas.MessagesOut)["messages"]
    assert first["usage"] == {"input_tokens": 120, "output_tokens": 5}
    assert first.items() >= counted.items()
    assert "usage" not in second
    assert third["variants"][0][0]["usage"] == first["usage"]
    assert await asyncio.to_thread(file.read_text) == before


def test_the_counts_of_older_files_are_deprecated() -> None:
    for schema in (schemas.MessageFields, ChatMessageOut):
        fields = schema.model_json_schema()["properties"]
        assert [name for name, field in fields.items() if field.get("deprecated")] == [
            "eval_count",
            "prompt_eval_count",
        ]
