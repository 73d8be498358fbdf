"""Budgets stand before model calls, and cost nothing where there are none."""

import asyncio
import gc
import subprocess
import sys
import threading
from contextlib import aclosing

import pytest

from models_app.language_model import Finished, ModelRequest, TextDelta, Warned
from models_app.model_calls import ModelCallObservers, ModelCallStart, ObservedModel
from usage_app.budgets.errors import BudgetExceeded
from usage_app.budgets.observer import Budgets
from usage_app.prices import PriceList
from usage_app.recorder import UsageRecorder


class Speaker:
    """A language model, which counts how often it is asked."""

    asked = 0

    async def stream(self, request):
        self.asked += 1
        yield [TextDelta("Hi")]
        yield [Finished("stop", 12, 3)]


class Shop:
    """An observed model behind budgets, with the ledger that they follow."""

    def __init__(self, bank, directory):
        self.recorder = UsageRecorder(bank.ledger, PriceList(directory / "prices.json"))
        self.budgets = Budgets(bank.path, lambda: bank.gate)
        self.speaker = Speaker()
        self.model = ObservedModel(
            self.speaker,
            provider="openai",
            observer=ModelCallObservers([self.recorder, self.budgets]),
        )

    async def ask(self):
        deltas = []
        async with aclosing(self.model.stream(ModelRequest(model="m", messages=()))) as batches:
            async for batch in batches:
                deltas += batch
        return deltas


@pytest.fixture
def shop(bank, tmp_path):
    return Shop(bank, tmp_path)


async def allow(bank, budget):
    await asyncio.to_thread(bank.allow, {"period": "total", **budget})


async def test_a_call_that_exceeds_a_budget_is_not_made_and_not_recorded(shop, bank):
    await allow(bank, {"requests": 1})
    await shop.ask()

    with pytest.raises(BudgetExceeded):
        await shop.ask()

    assert shop.speaker.asked == 1
    assert len((await asyncio.to_thread(bank.ledger.read_since, {}))[0]) == 1


async def test_a_call_that_runs_and_its_line_count_once(shop, bank):
    await allow(bank, {"requests": 5})

    asked = await asyncio.gather(*[shop.ask() for _ in range(9)], return_exceptions=True)

    assert len([each for each in asked if isinstance(each, BudgetExceeded)]) == 4
    (standing,) = await asyncio.to_thread(shop.budgets.standings, None)
    assert (standing.spent.requests, standing.running.requests) == (5, 0)


async def test_a_call_that_is_cancelled_while_it_is_admitted_does_not_count(
    shop, bank, monkeypatch
):
    await allow(bank, {"requests": 1})
    begun, goes_on, admitted = (threading.Event() for _ in range(3))

    def slowly(start, admit=bank.gate.admit):
        begun.set()
        goes_on.wait(60)
        admit(start)
        admitted.set()

    monkeypatch.setattr(bank.gate, "admit", slowly)
    call = asyncio.create_task(shop.ask())
    await asyncio.to_thread(begun.wait, 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    monkeypatch.undo()
    goes_on.set()
    await asyncio.to_thread(admitted.wait, 60)

    while (await asyncio.to_thread(shop.budgets.standings, None))[0].running.requests:
        await asyncio.sleep(0.01)
    await shop.ask()


async def test_a_refusal_after_the_caller_has_left_is_no_error_of_the_event_loop(
    shop, bank, monkeypatch
):
    await allow(bank, {"requests": 0})
    begun, goes_on = threading.Event(), threading.Event()
    refused = asyncio.Event()
    loop, told = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))

    def slowly(start, admit=bank.gate.admit):
        begun.set()
        goes_on.wait(60)
        return admit(start)

    def ended(call_id, end=bank.gate.ended):
        end(call_id)
        refused.set()

    monkeypatch.setattr(bank.gate, "admit", slowly)
    monkeypatch.setattr(bank.gate, "ended", ended)
    call = asyncio.create_task(shop.ask())
    await asyncio.to_thread(begun.wait, 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    goes_on.set()
    await refused.wait()
    await asyncio.sleep(0)
    gc.collect()

    assert told == []


async def test_who_waits_for_the_answer_is_told_of_a_warning_first(shop, bank):
    await allow(bank, {"requests": 0, "action": "warn"})

    first, second = await shop.ask(), await shop.ask()

    assert isinstance(first[0], Warned)
    assert [type(delta) for delta in second] == [TextDelta, Finished]


async def test_without_a_file_the_gate_is_not_built(shop, bank):
    await shop.ask()

    assert await asyncio.to_thread(shop.budgets.gate) is None
    await allow(bank, {"requests": 0})
    assert await asyncio.to_thread(shop.budgets.gate) is bank.gate


async def test_without_a_file_a_call_waits_for_no_thread(shop, monkeypatch):
    visits = []
    monkeypatch.setattr(asyncio, "to_thread", lambda *work: visits.append(work))

    start = ModelCallStart(
        provider="openai", model="m", purpose="chat", owner="default", call_id="c"
    )
    assert await shop.budgets.model_calling(start) is None

    assert visits == []


def test_without_a_file_nothing_is_imported():
    code = "import sys, usage_app.services; print([*sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "usage_app.budgets.observer" in said.stdout
    assert "usage_app.budgets.gate" not in said.stdout
    assert "usage_app.budgets.counters" not in said.stdout
