"""Defines budgets: what and whom they cover, their periods (UTC) and their limits. Pure."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import AfterValidator, Field, model_validator

from mochi_project.principal import InvalidOwner, is_owner
from models_app.prices import money
from usage_app.entry_faults import Entry
from usage_app.name_patterns import literal_but_stars

Period = Literal["day", "month", "total"]
Action = Literal["refuse", "warn"]
Unit = Literal["cost_usd", "tokens", "requests"]

EACH_OWNER = "*"

_HIGHEST = 10**15
_OTHER_UNITS = 2
Count = Annotated[int, Field(strict=True, ge=0, le=_HIGHEST)]
Name = Annotated[str, Field(min_length=1, max_length=300)]

_LATEST = ":latest"
_DAY, _MONTH = len("2026-11-22"), len("2026-11")


def _checked_owner(name: str) -> str:
    if name != EACH_OWNER and not is_owner(name):
        raise ValueError(f"{InvalidOwner(name)} `*` is each of them")
    return name


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """Something that counts against budgets: a call, or the sum of several.

    Attributes:
        requests: Model calls.
        tokens: Prompt and completion tokens.
        cost_usd: Their known costs in US dollars.
        unpriced: Calls of unknown price.
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
        """Return whether the use is known to be free."""
        return not self.unpriced and not self.cost_usd


NOTHING = Use()


class Scope(Entry):
    """The calls that a budget covers; without either, all of them.

    Attributes:
        model: A model by its full name, with ``*`` for any text: ``openai:gpt-5*``.
        provider: A provider: ``openai``, ``ollama``.
    """

    model: Name | None = None
    provider: Name | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.model is not None and self.provider is not None:
            raise ValueError("has both a model and a provider; name one of them")
        if self.provider is not None and not set("*:").isdisjoint(self.provider):
            raise ValueError(f"has '{self.provider}' for a provider: patterns go to `model`")
        return self

    def covers(self, provider: str, model: str) -> bool:
        """Return whether the scope covers calls of a model, named without its provider."""
        if self.provider is not None:
            return self.provider == provider
        if self.model is None:
            return True
        pattern = literal_but_stars(self.model)
        return any(fnmatchcase(name, pattern) for name in _names_of(provider, model))

    def __str__(self) -> str:
        """Return a description of the scope."""
        return self.model or self.provider or "all models"


def _names_of(provider: str, model: str) -> list[str]:
    """Return all names that requests may use for a model; Ollama's need no provider or tag."""
    if provider != "ollama":
        return [f"{provider}:{model}"]
    bare = model.removesuffix(_LATEST)
    return [f"ollama:{model}", model, f"ollama:{bare}", bare]


class Budget(Entry):
    """A limit on the use of models; sets one of ``cost_usd``, ``tokens`` and ``requests``.

    Attributes:
        period: The period after which the sum is reset.
        scope: The calls that it covers.
        owner: The owner whose calls it covers; ``*`` for each on his own, None for all together.
        cost_usd: The limit in US dollars.
        tokens: The limit of prompt and completion tokens together.
        requests: The limit of model calls.
        action: Whether calls that exceed it are refused or only logged as warnings.
    """

    period: Period
    scope: Scope = Scope()
    owner: Annotated[str, AfterValidator(_checked_owner)] | None = None
    cost_usd: Annotated[Decimal, Field(ge=0, le=_HIGHEST)] | None = None
    tokens: Count | None = None
    requests: Count | None = None
    action: Action = "refuse"

    @model_validator(mode="after")
    def _has_one_limit(self) -> Self:
        if [self.cost_usd, self.tokens, self.requests].count(None) != _OTHER_UNITS:
            raise ValueError("needs one of `cost_usd`, `tokens` and `requests`")
        return self

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

    def covers(self, provider: str, model: str, owner: str) -> bool:
        """Return whether it covers an owner's calls of a model, named without its provider."""
        return self.owner in {None, EACH_OWNER, owner} and self.scope.covers(provider, model)

    def counted_for(self, owner: str) -> str | None:
        """Return the owner whose calls are summed with those of this one; None for those of all."""
        return owner if self.owner == EACH_OWNER else self.owner

    def part_of(self, use: Use) -> Decimal:
        """Return the part of a use that counts, in the unit of the limit."""
        return Decimal(getattr(use, self.unit))

    def shown(self, amount: Decimal) -> Any:
        """Return an amount as in JSON: money is a decimal string."""
        return money(amount) if self.unit == "cost_usd" else int(amount)

    def in_words(self, amount: Decimal) -> str:
        """Return an amount with its unit, for messages."""
        if self.unit == "cost_usd":
            return f"${amount:.2f}" if amount == round(amount, 2) else f"${money(amount)}"
        return f"{int(amount):,} {self.unit.removesuffix('s') if amount == 1 else self.unit}"

    def __str__(self) -> str:
        """Return a description of the budget: ``$5.00 a day for openai:*``."""
        per = "in total" if self.period == "total" else f"a {self.period}"
        whose = {None: "", EACH_OWNER: " of each owner"}.get(self.owner, f" of {self.owner}")
        return f"{self.in_words(self.limit)} {per} for {self.scope}{whose}"


def key_of(period: Period, time: str) -> str:
    """Return the part of a time (UTC, ISO 8601) that identifies its period; empty for all time."""
    if period == "total":
        return ""
    return time[: _DAY if period == "day" else _MONTH]


def reset_after(period: Period, now: datetime) -> str | None:
    """Return the end of a period (UTC, ISO 8601); None if it never ends."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "total":
        return None
    end = today + timedelta(days=1)
    if period == "month":
        end = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    return end.isoformat().replace("+00:00", "Z")
