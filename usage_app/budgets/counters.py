"""Counts what budgets have spent, by following the ledger. Blocks."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from usage_app.budgets.budget import NOTHING, Budget, Use, key_of
from usage_app.ledger import Cursor, Ledger
from usage_app.record import UsageRecord

_LINES_AT_ONCE = 5_000
_KEPT_CALLS = 20_000
_KEPT_PERIODS = 40
_MOST_MODELS = 1_000

USUAL_ANSWER = 500
"""The tokens of an answer of a model that has not answered yet."""


class Counters:
    """The sums of budgets, up to the last record read from the ledger. Not thread-safe.

    Args:
        budgets: The budgets.
        ledger: The ledger, read from the first month that a period covers.
        now: The time.
    """

    def __init__(self, budgets: Sequence[Budget], ledger: Ledger, now: datetime) -> None:
        self.budgets = budgets
        self._ledger = ledger
        has_total = any(budget.period == "total" for budget in budgets)
        self._since = "" if has_total else key_of("month", now.isoformat())
        self._cursor: Cursor = {self._since: 0} if self._since else {}
        self._sums: list[dict[str | None, dict[str, Use]]] = [{} for _ in budgets]  # by owner
        self._covering: dict[tuple[str, str, str], Sequence[int]] = {}
        self._answers: dict[tuple[str, str], tuple[int, int]] = {}
        self._recorded: OrderedDict[str, None] = OrderedDict()

    def reach(self, now: datetime) -> bool:
        """Return whether the current periods are counted: not if the clock was set back."""
        return key_of("month", now.isoformat()) >= self._since

    def follow(self) -> None:
        """Count the records added to the ledger since the last call.

        Raises:
            OSError: It can't be read.
        """
        while True:
            records, cursor = self._ledger.read_since(self._cursor, _LINES_AT_ONCE)
            if cursor == self._cursor:
                return
            self._cursor = cursor
            for record in records:
                self._count(record)

    def covering(self, provider: str, model: str, owner: str) -> Sequence[int]:
        """Return the budgets that cover an owner's calls of a model."""
        call = provider, model, owner
        found = self._covering.get(call)
        if found is None:
            if len(self._covering) >= _MOST_MODELS:
                self._covering.clear()
            found = self._covering[call] = [
                index for index, budget in enumerate(self.budgets) if budget.covers(*call)
            ]
        return found

    def owners(self, index: int) -> Sequence[str | None]:
        """Return the owners for whom a budget counts; None stands for all together."""
        return sorted(self._sums[index], key=str) or [self.budgets[index].owner]

    def spent(self, index: int, owner: str | None, now: datetime) -> Use:
        """Return the use of a budget in its current period, by whom it counts for."""
        sums = self._sums[index].get(owner, {})
        return sums.get(key_of(self.budgets[index].period, now.isoformat()), NOTHING)

    def has_recorded(self, call_id: str) -> bool:
        """Return whether a call was counted recently."""
        return call_id in self._recorded

    def usual_answer(self, provider: str, model: str) -> int:
        """Return the average number of completion tokens of a model."""
        count, tokens = self._answers.get((provider, model), (0, 0))
        return tokens // count if count else USUAL_ANSWER

    def _count(self, record: UsageRecord) -> None:
        if record.call_id is not None:
            self._recorded[record.call_id] = None
            if len(self._recorded) > _KEPT_CALLS:
                self._recorded.popitem(last=False)
        if not record.was_answered:  # it does not count
            return
        name = record.provider, record.model
        if (
            record.output is not None
            and not record.estimated
            and (name in self._answers or len(self._answers) < _MOST_MODELS)
        ):
            count, tokens = self._answers.get(name, (0, 0))
            self._answers[name] = count + 1, tokens + record.output
        use = use_of(record)
        for index in self.covering(*name, record.owner):
            budget = self.budgets[index]
            key = key_of(budget.period, record.t)
            sums = self._sums[index].setdefault(budget.counted_for(record.owner), {})
            sums[key] = sums.get(key, NOTHING) + use
            if len(sums) > _KEPT_PERIODS:
                del sums[min(sums)]


def use_of(record: UsageRecord) -> Use:
    """Return the use that a call counts for; a call of unknown price costs nothing."""
    return Use(
        requests=1,
        tokens=(record.input or 0) + (record.output or 0),
        cost_usd=record.cost or Decimal(0),
        unpriced=int(record.cost_usd is None),
    )
