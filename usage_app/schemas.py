"""Declares the parameters and the response of the usage report."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from models_app.prices import money
from sessions_app.errors import ValidationFailed
from usage_app.report import DIMENSIONS, Dimension, Report, ReportQuery, Sums

_ONE = "|".join(DIMENSIONS)
GROUP_BY_PATTERN = f"^({_ONE})(,({_ONE}))*$"
DAY_PATTERN = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


def _matching(pattern: str, otherwise: str) -> AfterValidator:
    """Return a check against a pattern with an error in words, not the pattern."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise ValueError(otherwise)
        return value

    return AfterValidator(check)


Day = Annotated[str, _matching(DAY_PATTERN, "must be a day as YYYY-MM-DD")]
Groups = Annotated[
    str,
    _matching(GROUP_BY_PATTERN, f"must be some of {', '.join(DIMENSIONS)}, separated by commas"),
]
_NAMES: Mapping[Dimension, str] = {"session": "session_id"}


class UsageParams(Schema):
    """The days of a report, and its groups."""

    since: Day | None = Field(
        None,
        alias="from",
        json_schema_extra={"pattern": DAY_PATTERN},
        description="The first day (UTC): `2026-11-01`; by default that of the month of `to`",
    )
    until: Day | None = Field(
        None,
        alias="to",
        json_schema_extra={"pattern": DAY_PATTERN},
        description="The last day (UTC), which counts whole; by default today",
    )
    group_by: Groups = Field(
        "day,model",
        json_schema_extra={"pattern": GROUP_BY_PATTERN},
        max_length=100,
        description="Some of `day`, `model`, `provider`, `purpose`, `session`, `owner`, in the "
        "order in which groups are sorted",
    )

    def query(self, owner: str | None) -> ReportQuery:
        """Return the days and the grouping of a report on an owner's calls, or those of all.

        Raises:
            ValidationFailed: There is no such day, or the last one is before the first one.
        """
        since = _day(self.since, "from")
        last = _day(self.until, "to") or max(datetime.now(UTC).date(), since or date.min)
        first = since or last.replace(day=1)
        if last < first:
            raise ValidationFailed("'to' is before 'from'.", field="to")
        names = dict.fromkeys(self.group_by.split(","))
        return ReportQuery(
            first.isoformat(),
            last.isoformat(),
            [each for each in names if each in DIMENSIONS],  # as the pattern says
            owner,
        )


def _day(text: str | None, name: str) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValidationFailed(f"'{name}' is not a day: {text}.", field=name) from error


class UsageSumsOut(BaseModel):
    """The sums of several model calls; what is not known of a call adds nothing."""

    requests: int = Field(description="Model calls; a turn with tools makes several")
    failed_requests: int = Field(description="Those that ended with an error or were cancelled")
    input_tokens: int = Field(description="Of the requests, cached ones included")
    output_tokens: int = Field(description="Of the answers, reasoning included")
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    images: int
    cost_usd: str | None = Field(
        description="The known costs: a decimal number; null where none is known"
    )
    cost_known: bool = Field(description="Whether that is all: no call's cost is unknown")
    unpriced_requests: int = Field(description="Calls that may have cost something unknown")
    estimated_requests: int = Field(
        description="Calls whose tokens are estimated: they were stopped or broke off, or their "
        "provider does not count"
    )


class UsageGroupOut(UsageSumsOut):
    """The sums of a group; has the fields named by `group_by`."""

    day: str | None = None
    model: str | None = Field(None, description="With its provider in front, unless that is Ollama")
    provider: str | None = None
    purpose: str | None = Field(
        None, description="`chat`, `agent`, `summary`, `compaction` or `structured`"
    )
    session_id: str | None = Field(
        None, description="For an agent's calls that of the session which asked it"
    )
    owner: str | None = Field(None, description="Whose calls they are: yours")


_SUMS: dict[str, Any] = {
    "requests": 3,
    "failed_requests": 0,
    "input_tokens": 4200,
    "output_tokens": 610,
    "cached_tokens": 2048,
    "cache_write_tokens": 0,
    "reasoning_tokens": 128,
    "images": 0,
    "cost_usd": "0.009046",
    "cost_known": True,
    "unpriced_requests": 0,
    "estimated_requests": 0,
}
_EXAMPLE: dict[str, Any] = {
    "from": "2026-11-01",
    "to": "2026-11-22",
    "groups": [{"day": "2026-11-22", "model": "openai:gpt-5.1", **_SUMS}],
    "total": _SUMS,
}


class UsageReportOut(BaseModel):
    """A report of usage."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE}, populate_by_name=True)

    since: str = Field(alias="from")
    until: str = Field(alias="to")
    groups: list[UsageGroupOut]
    total: UsageSumsOut


def report_to_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON-compatible values."""
    names = [_NAMES.get(dimension, dimension) for dimension in report.query.group_by]
    return {
        "from": report.query.first,
        "to": report.query.last,
        "groups": [
            {**dict(zip(names, values, strict=True)), **_sums_to_json(sums)}
            for values, sums in report.groups
        ],
        "total": _sums_to_json(report.total),
    }


def _sums_to_json(sums: Sums) -> dict[str, Any]:
    return {
        "requests": sums.requests,
        "failed_requests": sums.failed,
        "input_tokens": sums.input,
        "output_tokens": sums.output,
        "cached_tokens": sums.cached,
        "cache_write_tokens": sums.cache_write,
        "reasoning_tokens": sums.reasoning,
        "images": sums.images,
        "cost_usd": money(sums.cost) if sums.priced or not sums.unpriced else None,
        "cost_known": sums.unpriced == 0,
        "unpriced_requests": sums.unpriced,
        "estimated_requests": sums.estimated,
    }
