"""Reads ``budgets.json``, the budgets that the user of the data directory sets.

::

    [{"scope": {"model": "openai:*"}, "period": "day", "cost_usd": "5.00", "action": "refuse"}]
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from usage_app.budgets.budget import Budget
from usage_app.entry_faults import InvalidFileError, read_entries

MOST_BUDGETS = 200
_BUDGETS = TypeAdapter(Annotated[list[Budget], Field(max_length=MOST_BUDGETS)])
_AGAIN_SECONDS = 0.1


def read_budgets(path: Path) -> Sequence[Budget]:
    """Read the file. Blocks. An invalid file is read twice, as it may just be being written.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidFileError: The file is invalid.
    """
    try:
        return read_entries(path, _BUDGETS)
    except InvalidFileError:
        time.sleep(_AGAIN_SECONDS)
        return read_entries(path, _BUDGETS)
