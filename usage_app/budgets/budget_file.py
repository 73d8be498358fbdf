"""Reads ``budgets.json``, the budgets that the user of the data directory sets.

::

    [{"scope": {"model": "openai:*"}, "period": "day", "cost_usd": "5.00", "action": "refuse"}]
"""

import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.store.atomic import UnreadableFileError, read_regular
from usage_app.budgets.budget import Budget
from usage_app.entry_faults import fault_in

NAME = "budgets.json"
MOST_BYTES = 1 << 20
MOST_BUDGETS = 200
_HIGHEST = Decimal(10) ** 15
_LONGEST_NAME = 300
_AGAIN_SECONDS = 0.1


class InvalidBudgetsError(ValueError):
    """``budgets.json`` can't be used; the message says why."""


def read_budgets(path: Path) -> Sequence[Budget]:
    """Read the file. Blocks. An invalid file is read twice, as it may just be being written.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidBudgetsError: The file is invalid.
    """
    try:
        return _read(path)
    except InvalidBudgetsError:
        time.sleep(_AGAIN_SECONDS)
        return _read(path)


def _read(path: Path) -> Sequence[Budget]:
    try:
        data = read_regular(path, limit=MOST_BYTES)
    except FileNotFoundError:
        raise
    except UnreadableFileError as error:
        raise InvalidBudgetsError(f"{NAME} can't be read: {error.reason}.") from error
    except OSError as error:
        raise InvalidBudgetsError(f"{NAME} can't be read: {error.strerror}.") from error
    try:
        budgets = decode_as(data, list[Budget])
    except msgspec.ValidationError as error:
        raise InvalidBudgetsError(_fault_in(data) or f"{NAME}: {error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidBudgetsError(f"{NAME} is not JSON: {error}.") from error
    if len(budgets) > MOST_BUDGETS:
        raise InvalidBudgetsError(f"{NAME} has more than {MOST_BUDGETS} budgets.")
    for index, budget in enumerate(budgets):
        _check(index, budget)
    return budgets


def _fault_in(data: bytes) -> str | None:
    """Return the sentence about the first entry that is not a budget."""
    entries = decode_as(data, Any)
    if not isinstance(entries, list):
        return f"{NAME} is not a list of budgets, as in `[{{...}}]`."
    for index, entry in enumerate(entries):
        if (fault := fault_in(entry, Budget)) is not None:
            return f"{_place(index)}: {fault}."
    return None


def _place(index: int) -> str:
    return f"{NAME}, entry {index + 1}"


def _check(index: int, budget: Budget) -> None:
    limits = [budget.cost_usd, budget.tokens, budget.requests]
    given = [each for each in limits if each is not None]
    at = f"{_place(index)}: it"
    if len(given) != 1:
        raise InvalidBudgetsError(f"{at} needs one of `cost_usd`, `tokens` and `requests`.")
    limit = Decimal(given[0])
    if not (limit.is_finite() and 0 <= limit <= _HIGHEST):
        raise InvalidBudgetsError(
            f"{_place(index)}: `{budget.unit}` is from 0 to {_HIGHEST:,} (it is {limit})."
        )
    scope = budget.scope
    if scope.model is not None and scope.provider is not None:
        raise InvalidBudgetsError(f"{at} has both a model and a provider; name one of them.")
    if any(len(name) > _LONGEST_NAME for name in (scope.model, scope.provider) if name):
        raise InvalidBudgetsError(f"{at} names something too long.")
    if "" in (scope.model, scope.provider):
        raise InvalidBudgetsError(f"{at} names nothing in its scope; `{{}}` is all models.")
    if scope.provider is not None and not set("*:").isdisjoint(scope.provider):
        raise InvalidBudgetsError(
            f"{at} has '{scope.provider}' for a provider: patterns go to `model`."
        )
