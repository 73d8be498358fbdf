"""Calls are let through while their budgets last, and refused before they are made."""

import json
import logging
from datetime import timedelta

import pytest

from models_app.language_model import ModelRequest
from sessions_app.errors import StorageUnavailable
from sessions_app.messages import UserMessage
from usage_app.budgets.errors import BudgetExceeded, BudgetsInvalid


def refusal(bank, *model, owner="default"):
    with pytest.raises(BudgetExceeded) as caught:
        bank.gate.admit(bank.start(*model, owner=owner))
    return caught.value


def spent(bank):
    return [int(each.budget.part_of(each.spent)) for each in bank.gate.standings(None)]


def test_without_a_file_all_pass_and_nothing_is_written(bank):
    assert bank.ask() is None
    assert bank.gate.standings(None) == []
    assert not bank.path.with_name("budgets").exists()


def test_requests_are_refused_once_as_many_were_made(bank):
    bank.allow({"requests": 2})
    bank.ask()
    bank.ask()

    error = refusal(bank)

    assert error.details == {
        "scope": {},
        "period": "day",
        "unit": "requests",
        "limit": 2,
        "spent": 2,
        "resets_at": "2026-11-23T00:00:00Z",
    }
    assert not error.retryable
    assert "2 requests a day for all models is used up" in error.message
    assert "raise it in budgets.json" in error.message


def test_money_is_decimal_and_said_as_such(bank):
    bank.allow({"cost_usd": "0.30", "scope": {"model": "openai:*"}})
    for _ in range(3):
        bank.ask(cost="0.1")

    error = refusal(bank)

    assert (error.details["limit"], error.details["spent"]) == ("0.3", "0.3")
    assert error.details["scope"] == {"model": "openai:*"}


def test_a_call_is_refused_whose_request_alone_is_more_than_is_left(bank):
    bank.allow({"tokens": 100})
    long = UserMessage(content="word " * 100, message_id="", timestamp="")

    with pytest.raises(BudgetExceeded):
        bank.gate.admit(bank.start(request=ModelRequest(model="gpt-5.1", messages=[long])))

    assert bank.ask() is None


def test_the_budget_that_is_used_up_first_refuses(bank):
    bank.allow(
        {"requests": 9},
        {"requests": 2, "scope": {"provider": "openai"}, "period": "month"},
        {"requests": 1, "scope": {"model": "openai:gpt-5*"}},
    )
    bank.ask("openai", "gpt-4o")
    bank.ask("openai", "gpt-5.1")

    assert refusal(bank, "openai", "gpt-5.1-mini").details["period"] == "month"
    bank.ask("anthropic", "claude-haiku-4-5")
    assert spent(bank) == [3, 2, 1]


def test_a_day_ends_at_midnight_utc_and_a_month_goes_on(bank):
    bank.allow({"requests": 1}, {"requests": 2, "period": "month"})
    bank.time = bank.time.replace(hour=23, minute=59, second=59)
    bank.ask()
    refusal(bank)

    bank.time += timedelta(seconds=1)
    bank.ask()

    assert refusal(bank).details["resets_at"] == "2026-11-24T00:00:00Z"
    bank.time += timedelta(days=1)
    assert refusal(bank).details["period"] == "month"
    bank.time = bank.time.replace(month=12, day=1)
    bank.ask()


def test_a_call_counts_for_the_day_on_which_it_ends(bank):
    bank.allow({"requests": 1})
    bank.time = bank.time.replace(hour=23, minute=59)
    start = bank.start()
    bank.gate.admit(start)
    bank.time += timedelta(minutes=2)
    refusal(bank)
    bank.end(start)

    refusal(bank)
    bank.time -= timedelta(minutes=2)
    assert spent(bank) == [0]


def test_totals_count_what_was_used_in_all_months(bank):
    for months in range(3):
        at = bank.time - timedelta(days=31 * months)
        bank.ledger.append([bank.record(bank.start(), at=at)])
    bank.allow({"requests": 3, "period": "total"}, {"requests": 2, "period": "month"})

    assert refusal(bank).details["resets_at"] is None
    assert spent(bank) == [3, 1]


def test_a_change_of_the_file_holds_from_the_next_call_on(bank):
    bank.allow({"requests": 1})
    bank.ask()
    refusal(bank)

    bank.allow({"requests": 3})
    bank.ask()
    bank.path.unlink()
    bank.ask()
    bank.allow({"requests": 3})

    refusal(bank)


def test_a_broken_file_refuses_all_calls_and_says_what_to_mend(bank, caplog):
    bank.allow({"requests": 9})
    bank.ask()
    bank.path.write_text("[{}]")

    for _ in range(2):
        with pytest.raises(BudgetsInvalid, match="entry 1: `period` is missing"):
            bank.gate.admit(bank.start())
    with pytest.raises(BudgetsInvalid):
        bank.gate.standings(None)
    assert [record.levelname for record in caplog.records] == ["ERROR"]

    bank.allow({"requests": 9})
    assert bank.ask() is None


def test_calls_that_run_count_until_the_ledger_has_them(bank):
    bank.allow({"requests": 2})
    first, second = bank.start(), bank.start()
    bank.gate.admit(first)
    bank.gate.admit(second)
    error = refusal(bank)
    assert "running calls may use the rest" in error.message

    bank.end(first, status="OLLAMA_UNREACHABLE", ttft_ms=None, cost=None)
    third = bank.start()
    bank.gate.admit(third)

    refusal(bank)
    bank.end(second)
    bank.end(third)
    refusal(bank)
    assert spent(bank) == [2]


def test_calls_that_run_count_with_what_such_calls_use(bank):
    bank.allow({"tokens": 1000})
    bank.ask(tokens=300)
    running = [bank.start() for _ in range(3)]
    for start in running:
        bank.gate.admit(start)

    refusal(bank)

    for start in running:
        bank.end(start, tokens=10)
    assert bank.ask(tokens=10) is None


def test_what_fails_before_the_model_says_anything_is_not_counted(bank):
    bank.allow({"requests": 1})
    bank.ask(status="NETWORK_ERROR", ttft_ms=None, cost=None)
    bank.ledger.append([bank.record(bank.start(), status="NETWORK_ERROR", ttft_ms=5)])

    assert spent(bank) == [1]


def test_what_costs_nothing_goes_on_when_money_is_used_up(bank):
    bank.allow({"cost_usd": "0.01"})
    bank.ask()

    refusal(bank)
    refusal(bank, "secret", "model")
    assert bank.ask("ollama", "qwen3:14b", cost="0") is None


def test_calls_of_unknown_price_cost_nothing_and_are_told_apart(bank):
    bank.allow({"cost_usd": "0.01"})
    bank.ask("secret", "model", cost=None)
    bank.ask("secret", "model", cost=None)

    (standing,) = bank.gate.standings(None)
    assert (standing.spent.unpriced, standing.spent.cost_usd) == (2, 0)


def test_a_warning_is_given_once_in_a_period_and_the_calls_go_on(bank, caplog):
    caplog.set_level(logging.WARNING)
    bank.allow({"requests": 1, "action": "warn"})
    assert bank.ask() is None

    said = bank.ask()
    assert "1 request a day for all models is used up" in said
    assert bank.ask() is None
    bank.time += timedelta(days=1)
    assert bank.ask() is None
    assert bank.ask() is not None
    assert len(caplog.records) == 2


def test_another_process_sees_what_was_used(bank):
    bank.allow({"requests": 2})
    bank.ask()
    bank.ask()
    bank.gate.close()

    bank.gate = bank.new_gate()

    refusal(bank)


def test_lines_of_the_ledger_without_an_id_count(bank):
    line = json.dumps(
        {"v": 1, "t": "2026-11-22T11:00:00.000Z", "provider": "openai", "model": "m"}
        | {"purpose": "chat", "status": "ok", "ms": 3}
    )
    bank.ledger.directory.mkdir()
    (bank.ledger.directory / "2026-11.jsonl").write_text(f"{line}\n")
    bank.allow({"requests": 1})

    refusal(bank)


def test_calls_are_refused_while_it_cannot_be_known_what_was_used(bank):
    bank.allow({"requests": 2})
    bank.path.with_name("budgets").write_text("in the way")

    with pytest.raises(StorageUnavailable, match="can't be used"):
        bank.gate.admit(bank.start())


def test_a_clock_that_is_put_back_by_a_month_opens_no_budget(bank):
    bank.allow({"requests": 2})
    bank.ask()
    wrong, bank.gate = bank.time + timedelta(days=40), bank.new_gate()
    right, bank.time = bank.time, wrong
    bank.ask()
    bank.time = right

    bank.ask()

    assert refusal(bank).details["spent"] == 2


def spent_as_told(bank, owner):
    standings = bank.gate.standings(owner)
    return [(each.budget.owner, each.spent.requests, each.running.requests) for each in standings]


def test_a_budget_of_each_owner_is_used_up_by_one_alone(bank):
    bank.allow({"requests": 2, "owner": "*"})
    bank.ask(owner="anna")
    bank.ask(owner="anna")
    bank.ask(owner="bob")
    bank.gate.admit(running := bank.start(owner="bob"))

    error = refusal(bank, "openai", "m", owner="anna")

    assert "2 requests a day for all models of anna is used up: 2 requests." in error.message
    assert spent_as_told(bank, "anna") == [("anna", 2, 0)]
    assert spent_as_told(bank, "bob") == [("bob", 1, 1)]
    assert spent_as_told(bank, "carl") == [("carl", 0, 0)]
    assert spent_as_told(bank, None) == [("anna", 2, 0), ("bob", 1, 1)]
    bank.end(running)


def test_a_budget_of_one_owner_is_no_business_of_others(bank):
    bank.allow({"requests": 1, "owner": "anna"})
    for _ in range(3):
        bank.ask(owner="bob")
    bank.ask(owner="anna")

    refusal(bank, owner="anna")
    assert spent_as_told(bank, "anna") == [("anna", 1, 0)]
    assert spent_as_told(bank, "bob") == []
    assert spent_as_told(bank, "default") == []
    assert spent_as_told(bank, None) == [("anna", 1, 0)]


def test_a_budget_of_all_tells_owners_nothing_of_each_other(bank):
    bank.allow({"requests": 1}, {"requests": 1, "action": "warn"})
    bank.ask(owner="bob")

    error = refusal(bank, owner="anna")

    assert "for all models is used up: all owners share it." in error.message
    assert error.details["spent"] is None
    assert spent_as_told(bank, "anna") == []
    assert refusal(bank).details["spent"] == 1
    assert spent_as_told(bank, "default") == [(None, 1, 0), (None, 1, 0)]


def test_a_warning_of_all_tells_owners_nothing_of_each_other(bank, caplog):
    bank.allow({"requests": 1, "action": "warn"})
    bank.ask(owner="bob")

    with caplog.at_level(logging.WARNING):
        told = bank.ask(owner="anna")

    assert "all owners share it" in told
    assert "1 request." in caplog.text  # in the operator's log


def test_another_owners_running_calls_do_not_count(bank):
    bank.allow({"requests": 1, "owner": "default"})
    bank.gate.admit(bank.start(owner="anna"))

    assert bank.ask() is None
    refusal(bank)
