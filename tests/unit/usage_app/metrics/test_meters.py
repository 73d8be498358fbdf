"""What ends is counted in the files of the process, which all processes see."""

import asyncio
from decimal import Decimal

import pytest
from prometheus_client import values

from chat.turn.observer import ToolEnd, ToolStart, TurnEnd, TurnStart
from chat.turn.state_machine import State
from mochi_project.principal import acting_for
from models_app.language_model import Finished
from models_app.model_calls import ModelCall, ModelCallStart
from usage_app.metrics.meters import Meters
from usage_app.metrics.names import BoundedNames
from usage_app.metrics.shared_files import SharedFiles

TURN = TurnStart(session_id="s", turn_id="t", model="qwen3:14b", purpose="chat")
TOOL = ToolStart(name="add", tool_call_id="c", session_id="s", is_agent=False)
CALL = ModelCallStart(provider="ollama", model="qwen3:14b", purpose="chat", owner="default")
TOKENS = Finished(prompt_eval_count=7, eval_count=3, cost=Decimal("0.25"))


@pytest.fixture
def counting(tmp_path, monkeypatch):
    files = SharedFiles(tmp_path / "metrics")
    files.open()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(files.directory))
    in_files = values.MultiProcessValue()
    monkeypatch.setattr(values, "ValueClass", in_files)
    yield Meters(files, version="1")
    files.close()
    in_files.close_all_files()


def end_turn(counting, *, outcome="ok"):
    """Have a turn that asks its model once, and calls a tool."""
    counting.turn_started(TURN)
    call = ModelCall(
        start=CALL, outcome=outcome, started_at=0, seconds_to_first_token=0.2, seconds=1,
        tokens=TOKENS,
    )  # fmt: skip
    counting.model_called(call)
    counting.tool_ended(ToolEnd(start=TOOL, outcome="ok", server=None, seconds=0.1))
    counting.turn_ended(
        TurnEnd(
            start=TURN, state=State.COMPLETED, error_code=None, rounds=2, tool_calls=1, seconds=2
        )
    )


async def shown(counting):
    """Return the sums of what other processes see, by name."""
    by_name = await asyncio.to_thread(lambda: counting.values(queue_age=None))
    return {name: sum(each["value"] for each in found) for name, found in by_name.items()}


async def test_what_ends_is_counted_at_once(counting):
    for _ in range(3):
        end_turn(counting)
    end_turn(counting, outcome="MODEL_ERROR")

    seen = await shown(counting)
    assert seen["mochi_turns_total"] == seen["mochi_turn_seconds_count"] == 4
    assert seen["mochi_model_calls_total"] == seen["mochi_model_first_token_seconds_count"] == 4
    assert seen["mochi_tokens_total"] == 40
    assert seen["mochi_cost_usd_total"] == 1
    assert seen["mochi_tool_calls_total"] == 4
    assert seen["mochi_upstream_errors_total"] == 1


async def test_a_turn_that_was_counted_no_longer_runs(counting):
    counting.turn_started(TURN)
    counting.sample(loop_lag=0, streams=1)
    assert (await shown(counting))["mochi_active_turns"] == 1
    end_turn(counting)
    end_turn(counting)

    seen = await shown(counting)
    assert (seen["mochi_active_turns"], seen["mochi_streams_attached"]) == (1, 1)


async def test_owners_are_counted_where_that_is_asked_for(counting, monkeypatch):
    by_owner = Meters(SharedFiles(counting._files.directory), version="1", by_owner=True)
    monkeypatch.setattr(by_owner, "_owners", BoundedNames(3))  # calls are `default`'s
    for owner in ("anna", "bob", "carl", "dora"):
        with acting_for(owner):
            end_turn(by_owner)
    end_turn(counting)

    values = await asyncio.to_thread(lambda: counting.values(queue_age=None))
    turns = {each["labels"]["owner"]: each["value"] for each in values["mochi_owner_turns_total"]}
    assert turns == {"anna": 1, "bob": 1, "other": 2}
    seen = await shown(counting)
    assert seen["mochi_turns_total"] == 5
    assert (seen["mochi_owner_tokens_total"], seen["mochi_owner_cost_usd_total"]) == (40, 1)
