"""Decides before each model call whether the budgets allow it (docs/decisions/0087). Blocks."""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec

from mochi_project.principal import DEFAULT_OWNER
from models_app.language_model import TOKEN_LIMITS, Finished, ModelRequest
from models_app.model_calls import ModelCallStart
from sessions_app.errors import StorageUnavailable
from usage_app.budgets.budget import NOTHING, Budget, Use, reset_after
from usage_app.budgets.budget_file import read_budgets
from usage_app.budgets.counters import Counters
from usage_app.budgets.errors import BudgetExceeded, BudgetsInvalid
from usage_app.budgets.running_calls import RunningCall, RunningCalls
from usage_app.entry_faults import InvalidFileError, Stamp, stamp_of
from usage_app.ledger import Ledger
from usage_app.prices import PriceList
from usage_app.record import tokens_sent

logger = logging.getLogger(__name__)

_MOST_WARNINGS = 10_000


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A budget and its use in the current period.

    Attributes:
        budget: The budget; one of each owner as that of one.
        spent: The use by calls that have ended.
        running: The estimated use by running calls.
        resets_at: When the sum is reset (UTC, ISO 8601); None for never.
    """

    budget: Budget
    spent: Use
    running: Use
    resets_at: str | None

    @property
    def is_used_up(self) -> bool:
        """Return whether the budget is used up."""
        return self.budget.part_of(self.spent) >= self.budget.limit

    def is_exceeded_by(self, least: Use, likely: Use) -> bool:
        """Return whether a call would exceed the budget; free calls never exceed a cost limit.

        Args:
            least: The minimum use: that of the request.
            likely: The use with an answer of average length.
        """
        budget = self.budget
        if budget.unit == "cost_usd" and likely.is_free:
            return False
        used = budget.part_of(self.spent) + budget.part_of(self.running)
        return used >= budget.limit or used + budget.part_of(least) > budget.limit

    def is_visible_to(self, owner: str) -> bool:
        """Return whether an owner may see what was spent (docs/decisions/0211)."""
        return owner == (self.budget.owner or DEFAULT_OWNER)

    def message(self, owner: str) -> str:
        """Return a sentence with the state of the budget and what to change, for an owner."""
        budget = self.budget
        spent = budget.in_words(budget.part_of(self.spent))
        runs = ", and running calls may use the rest" if not self.is_used_up else ""
        if not self.is_visible_to(owner):
            spent, runs = "all owners share it", ""
        reset = f" It resets at {self.resets_at}." if self.resets_at else ""
        return (
            f"The budget of {budget} is used up: {spent}{runs}.{reset} "
            "To continue before then, raise it in budgets.json."
        )

    def error(self, owner: str) -> BudgetExceeded:
        """Return the error of an owner's calls that exceed it."""
        budget = self.budget
        spent = budget.shown(budget.part_of(self.spent)) if self.is_visible_to(owner) else None
        return BudgetExceeded(
            self.message(owner),
            scope=budget.scope.model_dump(exclude_none=True),
            period=budget.period,
            unit=budget.unit,
            limit=budget.shown(budget.limit),
            spent=spent,
            resets_at=self.resets_at,
        )


class BudgetGate:
    """Admits model calls while their budgets allow it. Thread-safe; all methods block.

    A lock serializes the decisions of all processes, which count the ledger and running calls.

    Args:
        path: ``budgets.json``; changes apply from the next call on.
        ledger: The recorded usage.
        prices: The prices of models.
        running: The running calls of all processes.
        now: The clock.
    """

    def __init__(
        self,
        path: Path,
        *,
        ledger: Ledger,
        prices: PriceList,
        running: RunningCalls,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._path = path
        self._ledger = ledger
        self._prices = prices
        self._running = running
        self._now = now
        self._lock = threading.Lock()
        self._stamp: Stamp | tuple[()] = ()
        self._counters: Counters | None = None
        self._mine: dict[str, RunningCall] = {}
        self._warned: set[tuple[Budget, str | None]] = set()

    def admit(self, start: ModelCallStart) -> str | None:
        """Admit a call and count it until it is in the ledger, or refuse it.

        Returns:
            Warnings of budgets that do not refuse, each once per period.

        Raises:
            BudgetExceeded: A budget is used up.
            BudgetsInvalid: ``budgets.json`` is invalid.
            StorageError: The recorded usage can't be read.
        """
        with self._lock:
            counters = self._refreshed()
            if counters is None:
                return None
            covering = counters.covering(start.provider, start.model, start.owner)
            if not covering:
                return None
            with _typed_errors():
                counters.follow()  # the most of it before others have to wait
                return self._decide(start, counters, covering)

    def ended(self, call_id: str) -> None:
        """Count a call by its line in the ledger alone, if it has one. Does not block."""
        self._mine.pop(call_id, None)

    def standings(self, owner: str | None) -> Sequence[BudgetStatus]:
        """Return the state of the budgets that an owner may see; of all without one.

        Raises:
            BudgetsInvalid: ``budgets.json`` is invalid.
            StorageError: The recorded usage can't be read.
        """
        with self._lock, _typed_errors():
            counters = self._refreshed()
            if counters is None:
                return []
            others = self._still_running(counters)
            standings = (
                self._standing(counters, index, whose, others)
                for index, budget in enumerate(counters.budgets)
                for whose in ([budget.counted_for(owner)] if owner else counters.owners(index))
            )
            return [each for each in standings if owner is None or each.is_visible_to(owner)]

    def close(self) -> None:
        """Close the open files."""
        self._running.close()

    def _refreshed(self) -> Counters | None:
        """Return counters for the current file; None without a file.

        Raises:
            BudgetsInvalid: It can't be used.
        """
        stamp, known = stamp_of(self._path), self._counters
        if stamp == self._stamp and (
            stamp is None or (known is not None and known.reach(self._now()))
        ):
            return known
        is_new, self._stamp = stamp != self._stamp, stamp
        self._counters = None
        try:
            budgets = read_budgets(self._path)
        except FileNotFoundError:
            return None
        except InvalidFileError as error:
            if is_new:
                logger.error("%s No model is called until it is fixed or removed.", error)  # noqa: TRY400
            raise BudgetsInvalid(str(error)) from error
        self._counters = Counters(budgets, self._ledger, self._now())
        return self._counters

    def _decide(
        self, start: ModelCallStart, counters: Counters, covering: Sequence[int]
    ) -> str | None:
        budgets = [counters.budgets[index] for index in covering]
        is_priced = any(budget.unit == "cost_usd" for budget in budgets)
        if is_priced:
            self._prices.load(start.provider)
        least, likely = self._estimate(start, counters, is_priced=is_priced)
        warnings = []
        owner = self._running.mine()
        with self._running.locked():
            others = self._still_running(counters)
            for index in covering:
                whose = counters.budgets[index].counted_for(start.owner)
                standing = self._standing(counters, index, whose, others)
                if not standing.is_exceeded_by(least, likely):
                    continue
                if standing.budget.action == "refuse":
                    raise standing.error(start.owner)
                if self._is_news(standing):
                    warnings.append(standing)
            call = RunningCall(
                call_id=start.call_id,
                owner=owner,
                provider=start.provider,
                model=start.model,
                principal=start.owner,
                tokens=likely.tokens,
                cost_usd=likely.cost_usd,
            )
            self._running.write([*others, call])
            self._mine[call.call_id] = call
        for standing in warnings:
            logger.warning("%s", standing.message(DEFAULT_OWNER))
        return " ".join(standing.message(start.owner) for standing in warnings) or None

    def _standing(
        self,
        counters: Counters,
        index: int,
        owner: str | None,
        running: Collection[RunningCall],
    ) -> BudgetStatus:
        budget, now = counters.budgets[index], self._now()
        return BudgetStatus(
            budget=budget.model_copy(update={"owner": owner}),
            spent=counters.spent(index, owner, now),
            running=sum(
                (
                    call.use
                    for call in running
                    if budget.covers(call.provider, call.model, call.principal)
                    and budget.counted_for(call.principal) == owner
                ),
                NOTHING,
            ),
            resets_at=reset_after(budget.period, now),
        )

    def _still_running(self, counters: Counters) -> Sequence[RunningCall]:
        """Count the ledger up to now; return the calls that are not in it yet."""
        process = self._running.mine()
        # Before the ledger is read: who ends meanwhile has a line there, and counts once.
        calls = [call for call in self._running.read() if call.owner != process]
        calls += [call for call in list(self._mine.values()) if call.owner == process]
        counters.follow()
        return [call for call in calls if not counters.has_recorded(call.call_id)]

    def _estimate(
        self, start: ModelCallStart, counters: Counters, *, is_priced: bool
    ) -> tuple[Use, Use]:
        """Return the minimum and the probable use of a call."""
        request = start.request
        sent = tokens_sent(start)
        answer = counters.usual_answer(start.provider, start.model)
        limit = _limit_of(request) if request is not None else None
        answer = answer if limit is None else min(answer, limit)
        if is_priced:
            return self._use_of(start, sent, 0), self._use_of(start, sent, answer)
        return Use(requests=1, tokens=sent), Use(requests=1, tokens=sent + answer)

    def _use_of(self, start: ModelCallStart, tokens_in: int, answer: int) -> Use:
        tokens = Finished(prompt_eval_count=tokens_in, eval_count=answer)
        cost = self._prices.cost_of(start.provider, start.model, tokens)
        return Use(
            requests=1,
            tokens=tokens_in + answer,
            cost_usd=cost or Decimal(0),
            unpriced=int(cost is None),
        )

    def _is_news(self, standing: BudgetStatus) -> bool:
        """Return whether this process has not logged the warning in this period."""
        key = standing.budget, standing.resets_at
        if key in self._warned:
            return False
        if len(self._warned) >= _MOST_WARNINGS:
            self._warned.clear()
        self._warned.add(key)
        return True


@contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise StorageUnavailable(
            "Budgets can't be checked: another process holds their lock."
        ) from error
    except OSError as error:
        reason = error.strerror or error
        raise StorageUnavailable(f"Budgets can't be checked: {reason}.") from error


def _limit_of(request: ModelRequest) -> int | None:
    limits = [request.options.get(name) for name in TOKEN_LIMITS]
    return min((each for each in limits if isinstance(each, int) and each > 0), default=None)
