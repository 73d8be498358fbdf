"""What was spent is read from the ledger, each line once."""

from datetime import timedelta

from usage_app.budgets.budget import Budget, Scope
from usage_app.budgets.counters import USUAL_ANSWER, Counters

DAY = Budget(period="day", requests=9)


def test_lines_count_once_however_often_the_ledger_is_looked_at(bank):
    counters = Counters([DAY], bank.ledger, bank.time)
    for _ in range(3):
        bank.ledger.append([bank.record(bank.start())])
        counters.follow()
        counters.follow()

    assert counters.spent(0, None, bank.time).requests == 3
    assert counters.has_recorded("call-3")


def test_more_lines_than_are_read_at_once_count_all(bank):
    bank.ledger.append([bank.record(bank.start()) for _ in range(5_003)])
    counters = Counters([DAY], bank.ledger, bank.time)
    counters.follow()

    assert counters.spent(0, None, bank.time).requests == 5_003


def test_earlier_months_are_read_where_a_total_needs_them(bank):
    before = bank.time - timedelta(days=40)
    bank.ledger.append([bank.record(bank.start(), at=before)])
    total = Budget(period="total", requests=9)

    for budgets, spent in (([total, DAY], 1), ([DAY], 0)):
        counters = Counters(budgets, bank.ledger, bank.time)
        counters.follow()
        assert counters.spent(0, None, bank.time).requests == spent


def test_budgets_cover_the_models_of_their_scopes(bank):
    of_openai = Budget(scope=Scope(provider="openai"), period="day", requests=9)
    counters = Counters([of_openai, DAY], bank.ledger, bank.time)

    assert counters.covering("openai", "m", "default") == [0, 1]
    assert counters.covering("ollama", "m", "default") == [1]


def test_an_answer_is_expected_to_be_as_long_as_others_were(bank):
    counters = Counters([DAY], bank.ledger, bank.time)
    assert counters.usual_answer("openai", "gpt-5.1") == USUAL_ANSWER

    bank.ledger.append([bank.record(bank.start(), tokens) for tokens in (100, 300)])
    counters.follow()

    assert counters.usual_answer("openai", "gpt-5.1") == 200
    assert counters.usual_answer("openai", "gpt-4o") == USUAL_ANSWER
