"""Model calls are recorded as they end."""

import asyncio
import logging
import os
from contextlib import aclosing

import pytest

from models_app.errors import ServiceUnavailable
from models_app.language_model import Finished, ModelRequest, TextDelta
from models_app.model_calls import ModelCall, ModelCallStart, ObservedModel, call_models_for
from usage_app.ledger import Ledger
from usage_app.prices import PriceList
from usage_app.recorder import UsageRecorder


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "usage")


@pytest.fixture
def recorder(ledger, tmp_path):
    return UsageRecorder(ledger, PriceList(tmp_path / "prices.json"))


class Speaker:
    """A language model that yields batches, or raises."""

    def __init__(self, *batches):
        self.batches = batches

    async def stream(self, request):
        for batch in self.batches:
            if isinstance(batch, Exception):
                raise batch
            yield batch


def ask(recorder, *batches, provider="ollama", model="m", leaves=False, caller=None):
    async def listen():
        if caller:
            call_models_for(*caller)
        observed = ObservedModel(Speaker(*batches), provider=provider, observer=recorder)
        async with aclosing(observed.stream(ModelRequest(model=model, messages=[]))) as answer:
            async for _ in answer:
                if leaves:
                    break

    asyncio.run(listen())


def test_each_call_is_recorded(recorder, ledger):
    caller = ("0123456789", "t1")
    ask(recorder, [TextDelta("Hi")], [Finished("stop", 12, 3)], caller=caller)
    with pytest.raises(ServiceUnavailable):
        ask(recorder, ServiceUnavailable("no"), caller=caller)
    ask(recorder, [TextDelta("Hi")], [TextDelta("there")], leaves=True, caller=caller)

    found = ledger.read_since({})[0]
    assert [(each.status, each.input, each.output) for each in found] == [
        ("ok", 12, 3),
        (ServiceUnavailable.code, None, None),
        ("cancelled", None, 1),  # estimated, as are the tokens that budgets count
    ]
    assert {(each.session_id, each.turn_id) for each in found} == {caller}
    assert {each.cost_usd for each in found} == {"0"}


def test_a_vendors_prices_are_there_for_its_first_call(recorder, ledger):
    ask(recorder, [Finished("stop", 1_000_000, 0)], provider="openai", model="gpt-5.1")

    (found,) = ledger.read_since({})[0]
    assert (found.cost_usd, found.price_source) == ("1.25", "genai-prices")


def test_a_call_is_recorded_before_anybody_is_told_of_its_end(recorder, ledger):
    ask(recorder, [Finished("stop", 1, 1)])
    ask(recorder, [Finished("stop", 2, 1)])

    assert [each.input for each in ledger.read_since({})[0]] == [1, 2]


def test_calls_are_recorded_though_the_file_is_deleted_meanwhile(recorder, ledger):
    for tokens in (1, 2):
        ask(recorder, [Finished("stop", tokens, 1)])
    (month,) = ledger.months()
    (ledger.directory / f"{month}.jsonl").unlink()
    for tokens in (3, 4):
        ask(recorder, [Finished("stop", tokens, 1)])

    assert [each.input for each in ledger.read_since({})[0]] == [3, 4]


def test_a_call_that_ends_in_another_month_is_in_its_file(recorder, ledger):
    before = 1793491199.0  # a second before November 2026
    for started_at in (before, before + 3600):
        start = ModelCallStart(provider="ollama", model="m", purpose="chat", owner="default")
        asyncio.run(recorder.model_calling(start))
        call = ModelCall(
            start=start,
            outcome="ok",
            started_at=started_at,
            seconds_to_first_token=None,
            seconds=0.5,
            tokens=Finished(),
        )
        recorder.model_called(call)

    months = [list(ledger.follow_month(month, 0)) for month in ("2026-10", "2026-11")]
    assert [len(records) for records in months] == [1, 1]


def test_a_disk_that_takes_no_more_is_said_once_and_counted(recorder, ledger, caplog):
    caplog.set_level(logging.WARNING, logger="usage_app")
    ledger.directory.write_text("no directory")
    for _ in range(3):
        ask(recorder, [Finished("stop", 1, 1)])
    assert recorder.lost == 3
    assert [each.levelname for each in caplog.records] == ["ERROR"]

    ledger.directory.unlink()
    ask(recorder, [Finished("stop", 7, 1)])
    assert [each.input for each in ledger.read_since({})[0]] == [7]
    assert "3 calls were not" in caplog.text


def test_a_child_of_a_process_that_recorded_records_too(recorder, ledger):
    ask(recorder, [Finished("stop", 1, 1)])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ask(recorder, [Finished("stop", 2, 1)])
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0

    assert [each.input for each in ledger.read_since({})[0]] == [1, 2]
