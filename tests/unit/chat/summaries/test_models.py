"""Which model writes a summary: named, configured, the session's own, or the one before."""

import logging

import pytest

from chat.summaries.models import SummaryModels
from models_app.errors import ModelNotFound, OllamaError
from sessions_app.session import make_session
from sessions_app.session_settings import change_settings

MODELS = SummaryModels(catalogue=None, unsupported=("gpt-oss:20b",))

pytestmark = pytest.mark.allow_blocking  # tests look into files between the steps


@pytest.mark.parametrize(
    ("model", "stored", "named", "configured", "chosen"),
    [
        ("own", None, False, None, "own"),
        ("own", "first", False, None, "own"),
        ("gpt-oss:20b", "first", False, None, "first"),
        ("ollama:gpt-oss:20b", "first", False, None, "first"),
        ("gpt-oss:20b", "gpt-oss:20b", False, None, None),
        ("gpt-oss:20b", None, False, None, None),
        ("own", None, False, "small", "small"),
        ("own", "first", False, "small", "small"),
        ("gpt-oss:20b", "first", False, "small", "small"),
        ("own", "named", True, "small", "named"),
        ("own", "named", True, None, "named"),
        ("own", "own", True, "small", "own"),
        ("own", "gpt-oss:20b", True, "small", "small"),
        ("own", None, False, "gpt-oss:20b", "own"),
    ],
)
def test_the_first_that_can_write_is_chosen(model, stored, named, configured, chosen):
    by = "person" if named else None
    session = make_session("a1b2c3d4e5", model, now="t", summary_model=stored, summary_model_by=by)
    models = SummaryModels(catalogue=None, unsupported=MODELS.unsupported, configured=configured)
    assert models.choose(session.metadata) == chosen


def test_a_model_that_a_client_names_is_known_as_named_until_it_takes_it_back():
    session = make_session("a1b2c3d4e5", "own", now="t")
    named = change_settings(session, {"summary_model": "named"}, now="t")
    assert MODELS.choose(named.metadata) == "named"
    back = change_settings(named, {"summary_model": None}, now="t")
    assert MODELS.choose(back.metadata) == "own"
    assert back == session


async def test_the_configured_model_writes_and_the_session_keeps_its_own(house):
    session_id = house.talk("own")

    assert await house.run(session_id, house.build(configured="small")) == "done"

    assert [model for model, _ in house.answers.questions] == ["small"]
    assert house.metadata(session_id).model == "own"


async def test_the_configured_model_of_another_day_does_not_stay_with_the_session(house):
    session_id = house.talk("own")
    await house.run(session_id, house.build(configured="small"))

    await house.build(configured="smaller").summarize(session_id)
    await house.build().summarize(session_id)

    assert [model for model, _ in house.answers.questions] == ["small", "smaller", "own"]


async def test_a_model_that_a_request_names_comes_first_and_is_remembered(house):
    session_id = house.talk("own")
    service = house.build(configured="small")

    await service.summarize(session_id, "writer")
    await service.summarize(session_id)

    assert [model for model, _ in house.answers.questions] == ["writer", "writer"]


async def test_a_configured_model_that_is_missing_is_replaced_and_warned_of_once(house, caplog):
    service = house.build(configured="gone")
    with caplog.at_level(logging.WARNING, logger="chat.summaries"):
        for _ in range(2):
            session_id = house.talk("own")
            house.answers.script = [ModelNotFound("model 'gone' not found"), "They talked."]
            assert await house.run(session_id, service) == "done"
            assert house.metadata(session_id).summary["summary"] == "They talked."

    assert [model for model, _ in house.answers.questions] == ["gone", "own"] * 2
    assert [record.message for record in caplog.records] == [
        "MOCHI_SUMMARY_MODEL 'gone' does not exist; others are asked"
    ]


async def test_a_named_model_that_is_missing_is_an_error_as_before(house):
    session_id = house.talk("own", summary_model="named", summary_model_by="person")
    house.answers.script = [ModelNotFound("model 'named' not found")]

    assert await house.run(session_id, house.build(configured="small")) == "failed: MODEL_NOT_FOUND"


async def test_a_configured_model_that_fails_is_not_replaced(house):
    session_id = house.talk("own")
    house.answers.script = [OllamaError("out of memory")]

    assert (await house.run(session_id, house.build(configured="small"))).startswith("failed")
    assert [model for model, _ in house.answers.questions] == ["small"]
