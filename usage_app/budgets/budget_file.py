"""Reads ``budgets.json``, the budgets that the user of the data directory sets.

::

    [{"scope": {"model": "openai:*"}, "period": "day", "cost_usd": "5.00", "action": "refuse"}]
"""

import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from mochi_project.principal import InvalidOwner, require_owner
from usage_app.budgets.budget import EACH_OWNER, Budget
from usage_app.entry_faults import InvalidFileError, fault_in, read_entries

NAME = "budgets.json"
MOST_BUDGETS = 200
_HIGHEST = Decimal(10) ** 15
_LONGEST_NAME = 300
_AGAIN_SECONDS = 0.1


def read_budgets(path: Path) -> Sequence[Budget]:
    """Read the file. Blocks. An invalid file is read twice, as it may just be being written.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidFileError: The file is invalid.
    """
    try:
        return _read(path)
    except InvalidFileError:
        time.sleep(_AGAIN_SECONDS)
        return _read(path)


def _read(path: Path) -> Sequence[Budget]:
    budgets = read_entries(path, list[Budget], _fault_in)
    if len(budgets) > MOST_BUDGETS:
        raise InvalidFileError(f"{NAME} has more than {MOST_BUDGETS} budgets.")
    for index, budget in enumerate(budgets):
        _check(index, budget)
    return budgets


def _fault_in(entries: Any) -> str | None:
    """Return the sentence about the first entry that is not a budget."""
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
        raise InvalidFileError(f"{at} needs one of `cost_usd`, `tokens` and `requests`.")
    limit = Decimal(given[0])
    if not (limit.is_finite() and 0 <= limit <= _HIGHEST):
        raise InvalidFileError(
            f"{_place(index)}: `{budget.unit}` is from 0 to {_HIGHEST:,} (it is {limit})."
        )
    scope = budget.scope
    if scope.model is not None and scope.provider is not None:
        raise InvalidFileError(f"{at} has both a model and a provider; name one of them.")
    if any(len(name) > _LONGEST_NAME for name in (scope.model, scope.provider) if name):
        raise InvalidFileError(f"{at} names something too long.")
    try:
        if budget.owner is not None and budget.owner != EACH_OWNER:
            require_owner(budget.owner)
    except InvalidOwner as error:
        raise InvalidFileError(f"{at} is of an owner: {error} `*` is each of them.") from error
    if "" in (scope.model, scope.provider):
        raise InvalidFileError(f"{at} names nothing in its scope; `{{}}` is all models.")
    if scope.provider is not None and not set("*:").isdisjoint(scope.provider):
        raise InvalidFileError(
            f"{at} has '{scope.provider}' for a provider: patterns go to `model`."
        )
