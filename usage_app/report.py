"""Sums up the ledger by day, model, provider, purpose, session and owner (UTC). Pure."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal, get_args

import msgspec

from sessions_app.errors import ValidationFailed
from usage_app.record import UsageRecord, full_name

Dimension = Literal["day", "model", "provider", "purpose", "session", "owner"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
MOST_GROUPS = 10_000


class ReportQuery(msgspec.Struct, frozen=True):
    """The first and last day of a report (inclusive), its grouping, and whose calls it has.

    Without an owner it has those of all.
    """

    first: str
    last: str
    group_by: Sequence[Dimension]
    owner: str | None

    @property
    def months(self) -> tuple[str, str]:
        """Return the first and the last month."""
        return self.first[:7], self.last[:7]


class Sums(msgspec.Struct, kw_only=True, gc=False):
    """The sums of several calls; unknown values count as nothing.

    Attributes:
        requests: The number of calls.
        failed: The number of calls that failed or were cancelled.
        input: Prompt tokens.
        output: Completion tokens.
        cached: Prompt tokens read from providers' caches.
        cache_write: Prompt tokens written to providers' caches.
        reasoning: Reasoning tokens.
        images: Images in the requests.
        cost: The known costs in US dollars.
        priced: The number of calls of known cost.
        unpriced: The number of calls of unknown cost.
        estimated: The number of calls whose tokens are estimated.
    """

    requests: int = 0
    failed: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    images: int = 0
    cost: Decimal = Decimal(0)
    priced: int = 0
    unpriced: int = 0
    estimated: int = 0

    def add(self, record: UsageRecord) -> None:
        """Add a call."""
        self.requests += 1
        self.failed += record.status != "ok"
        self.input += record.input or 0
        self.output += record.output or 0
        self.cached += record.cached or 0
        self.cache_write += record.cache_write or 0
        self.reasoning += record.reasoning or 0
        self.images += record.images
        self.estimated += record.estimated
        cost = record.cost
        if cost is not None:
            self.cost += cost
            self.priced += 1
        else:
            self.unpriced += record.is_unpriced

    def merge(self, other: "Sums") -> None:
        """Add the sums of other calls."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Key(msgspec.Struct, frozen=True):
    """The key of an entry of a table, which calls share."""

    day: str
    provider: str
    model: str
    purpose: str
    owner: str
    session_id: str | None = None

    def along(self, dimension: Dimension) -> str | None:
        """Return the value of a dimension."""
        match dimension:
            case "model":
                return full_name(self.provider, self.model)
            case "session":
                return self.session_id
            case _:
                value: str = getattr(self, dimension)
                return value


Table = dict[Key, Sums]
Values = tuple[str | None, ...]


def add_to(table: Table, record: UsageRecord, *, with_session: bool) -> None:
    """Add a call to a table.

    Args:
        table: The table.
        record: The call.
        with_session: Whether entries are kept by session.
    """
    session_id = record.session_id if with_session else None
    key = Key(record.day, record.provider, record.model, record.purpose, record.owner, session_id)
    sums = table.get(key)
    if sums is None:
        sums = table[key] = Sums()
    sums.add(record)


class Report(msgspec.Struct, frozen=True):
    """The sums of each group, in order, and of all."""

    query: ReportQuery
    groups: Sequence[tuple[Values, Sums]]
    total: Sums


class Reporter:
    """Gathers a report from tables.

    Args:
        query: The days, the grouping and the owner.
    """

    def __init__(self, query: ReportQuery) -> None:
        self._query = query
        self._groups: dict[Values, Sums] = {}

    def add(self, entries: Iterable[tuple[Key, Sums]]) -> None:
        """Add the entries of a table that belong to the report.

        Raises:
            ValidationFailed: There are too many groups.
        """
        query, groups = self._query, self._groups
        for key, sums in entries:
            if not query.first <= key.day <= query.last or query.owner not in {None, key.owner}:
                continue
            values = tuple(key.along(dimension) for dimension in query.group_by)
            group = groups.get(values)
            if group is None:
                if len(groups) >= MOST_GROUPS:
                    raise ValidationFailed(
                        f"There are more than {MOST_GROUPS:,} groups: ask for fewer days, or group "
                        "by less.",
                        field="group_by",
                    )
                group = groups[values] = Sums()
            group.merge(sums)

    def report(self) -> Report:
        """Return the report."""
        total = Sums()
        for sums in self._groups.values():
            total.merge(sums)
        ordered = sorted(self._groups.items(), key=lambda item: [each or "" for each in item[0]])
        return Report(self._query, ordered if self._query.group_by else [], total)
