"""Defines budgets: what they cover, their periods (UTC) and their limits. Pure."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from models_app.prices import money

Period = Literal["day", "month", "total"]
Action = Literal["refuse", "warn"]
Unit = Literal["cost_usd", "tokens", "requests"]

_LATEST = ":latest"
_DAY, _MONTH = len("2026-11-22"), len("2026-11")


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """Something that counts against budgets: a call, or the sum of several.

    Attributes:
        requests: Calls of models.
        tokens: Of requests and answers.
        cost_usd: What they cost, as far as that is known.
        unpriced: Calls whose price is not known.
    """

    requests: int = 0
    tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    unpriced: int = 0

    def __add__(self, other: "Use") -> "Use":
        return Use(
            requests=self.requests + other.requests,
            tokens=self.tokens + other.tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            unpriced=self.unpriced + other.unpriced,
        )

    @property
    def is_free(self) -> bool:
        """Return whether it is known to cost nothing."""
        return not self.unpriced and not self.cost_usd


NOTHING = Use()


class Scope(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The calls that a budget covers; without either, all of them.

    Attributes:
        model: A model by its full name, with ``*`` for any text: ``openai:gpt-5*``.
        provider: A provider: ``openai``, ``ollama``.
    """

    model: str | None = None
    provider: str | None = None

    def covers(self, provider: str, model: str) -> bool:
        """Return whether it covers the calls of a model, which bears no provider in front."""
        if self.provider is not None:
            return self.provider == provider
        if self.model is None:
            return True
        pattern = self.model.replace("[", "[[]").replace("?", "[?]")
        return any(fnmatchcase(name, pattern) for name in _names_of(provider, model))

    def __str__(self) -> str:
        """Return the scope in words."""
        return self.model or self.provider or "all models"


def _names_of(provider: str, model: str) -> list[str]:
    """Return the names by which requests may call a model; Ollama's need no provider, nor a tag."""
    if provider != "ollama":
        return [f"{provider}:{model}"]
    bare = model.removesuffix(_LATEST)
    return [f"ollama:{model}", model, f"ollama:{bare}", bare]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit of what models may be used for; it has one of ``cost_usd``, ``tokens``, ``requests``.

    Attributes:
        period: The time after which it starts anew.
        scope: The calls that it covers.
        cost_usd: The limit in US dollars.
        tokens: The limit of tokens, of requests and answers together.
        requests: The limit of model calls.
        action: Whether calls are refused that exceed it, or it is only said.
    """

    period: Period
    scope: Scope = Scope()
    cost_usd: Decimal | None = None
    tokens: int | None = None
    requests: int | None = None
    action: Action = "refuse"

    @property
    def unit(self) -> Unit:
        """The unit of its limit."""
        if self.cost_usd is not None:
            return "cost_usd"
        return "tokens" if self.tokens is not None else "requests"

    @property
    def limit(self) -> Decimal:
        """The limit, in its unit."""
        given = (self.cost_usd, self.tokens, self.requests)
        return next(Decimal(each) for each in given if each is not None)

    def part_of(self, use: Use) -> Decimal:
        """Return what counts of some use, in its unit."""
        return Decimal(getattr(use, self.unit))

    def shown(self, amount: Decimal) -> Any:
        """Return an amount of its unit as JSON has it: money as a decimal string."""
        return money(amount) if self.unit == "cost_usd" else int(amount)

    def in_words(self, amount: Decimal) -> str:
        """Return an amount of its unit for people."""
        if self.unit == "cost_usd":
            return f"${amount:.2f}" if amount == round(amount, 2) else f"${money(amount)}"
        return f"{int(amount):,} {self.unit.removesuffix('s') if amount == 1 else self.unit}"

    def __str__(self) -> str:
        """Return the budget in words: ``$5.00 a day for openai:*``."""
        per = "in total" if self.period == "total" else f"a {self.period}"
        return f"{self.in_words(self.limit)} {per} for {self.scope}"


def key_of(period: Period, time: str) -> str:
    """Return what is the same for all times (UTC, ISO 8601) of a day, of a month, or for ever."""
    if period == "total":
        return ""
    return time[: _DAY if period == "day" else _MONTH]


def reset_after(period: Period, now: datetime) -> str | None:
    """Return when a period ends (UTC, ISO 8601); None for one that never does."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "total":
        return None
    end = today + timedelta(days=1)
    if period == "month":
        end = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    return end.isoformat().replace("+00:00", "Z")
