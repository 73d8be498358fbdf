"""Checks budgets before model calls; imports the checks once there is a ``budgets.json``."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from models_app.model_calls import ModelCall, ModelCallStart

if TYPE_CHECKING:
    from usage_app.budgets.gate import BudgetGate, BudgetStatus


class Budgets:
    """Refuses model calls that exceed a budget; a ``ModelCallObserver``.

    Args:
        path: ``budgets.json``.
        build: Builds the gate.
    """

    def __init__(self, path: Path, build: "Callable[[], BudgetGate]") -> None:
        self._path = str(path)
        self._build = build
        self._building = threading.Lock()
        self._gate: BudgetGate | None = None

    async def model_calling(self, start: ModelCallStart, /) -> str | None:
        """Admit the call or refuse it; return warnings of budgets.

        Raises:
            BudgetExceeded: A budget is used up.
            BudgetsInvalid: ``budgets.json`` is invalid.
            StorageError: The recorded usage can't be read.
        """
        gate = self._gate
        if gate is None:
            if not self._is_there():
                return None
            gate = await asyncio.to_thread(self.gate)
            if gate is None:
                return None
        admission = asyncio.ensure_future(asyncio.to_thread(gate.admit, start))
        try:
            return await asyncio.shield(admission)
        except asyncio.CancelledError:  # no call will be made, and the thread goes on
            admission.add_done_callback(partial(_forget, gate, start.call_id))
            raise

    def model_called(self, call: ModelCall, /) -> None:
        """Note the end of the call."""
        if self._gate is not None:
            self._gate.ended(call.start.call_id)

    def gate(self) -> "BudgetGate | None":
        """Return the gate; None if there never was a file. Blocks."""
        with self._building:
            if self._gate is None and self._is_there():
                self._gate = self._build()
            return self._gate

    def _is_there(self) -> bool:
        """Return whether the file exists.

        Runs on the event loop: a lookup takes less time than the switch to a thread would.
        """
        return os.path.lexists(self._path)

    def standings(self, owner: str | None) -> "Sequence[BudgetStatus]":
        """Return the state of the budgets that an owner may see; of all without one. Blocks.

        Raises:
            BudgetsInvalid: ``budgets.json`` is invalid.
            StorageError: The recorded usage can't be read.
        """
        gate = self.gate()
        return gate.standings(owner) if gate is not None else ()


def _forget(gate: "BudgetGate", call_id: str, admission: "asyncio.Future[str | None]") -> None:
    """Forget a call whose caller has left; a refusal then concerns nobody."""
    gate.ended(call_id)
    if not admission.cancelled():
        admission.exception()  # else asyncio logs it as one that nobody took
