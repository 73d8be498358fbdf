"""A gate over a ledger of its own, and a clock that is set by hand."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from models_app.language_model import ModelRequest
from models_app.model_calls import ModelCallStart
from usage_app.budgets.gate import BudgetGate
from usage_app.budgets.running_calls import RunningCalls
from usage_app.ledger import Ledger
from usage_app.record import UsageRecord

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Tenths:
    """Prices: a tenth of a dollar a thousand tokens; Ollama is free, ``secret`` not known."""

    def load(self, provider):
        pass

    def cost_of(self, provider, model, tokens, /):
        if provider == "secret":
            return None
        sent = (tokens.prompt_eval_count or 0) + (tokens.eval_count or 0)
        return Decimal(0) if provider == "ollama" else Decimal(sent) / 10_000


class Bank:
    """A gate, with what it looks at."""

    def __init__(self, directory):
        self.path = directory / "budgets.json"
        self.ledger = Ledger(directory / "usage")
        self.running = RunningCalls(directory / "budgets")
        self.time = NOON
        self.gate = self.new_gate()
        self.count = 0

    def new_gate(self):
        return BudgetGate(
            self.path,
            ledger=self.ledger,
            prices=Tenths(),
            running=self.running,
            now=lambda: self.time,
        )

    def allow(self, *budgets):
        self.path.write_text(json.dumps([{"period": "day", **budget} for budget in budgets]))

    def start(self, provider="openai", model="gpt-5.1", *, request=None, owner="default"):
        self.count += 1
        return ModelCallStart(
            provider=provider,
            model=model,
            purpose="chat",
            owner=owner,
            call_id=f"call-{self.count}",
            request=request or ModelRequest(model=model, messages=()),
        )

    def ask(self, provider="openai", model="gpt-5.1", *, owner="default", **how):
        """Make a call, which ends at once; return what was said of it."""
        start = self.start(provider, model, owner=owner)
        said = self.gate.admit(start)
        self.end(start, **how)
        return said

    def end(self, start, *, tokens=10, status="ok", ttft_ms=1, cost="0.01"):
        self.ledger.append([self.record(start, tokens, status, ttft_ms, cost)])
        self.gate.ended(start.call_id)

    def record(self, start, tokens=10, status="ok", ttft_ms=1, cost="0.01", at=None):
        return UsageRecord(
            v=1,
            t=(at or self.time).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            provider=start.provider,
            model=start.model,
            purpose="chat",
            status=status,
            ms=1,
            owner=start.owner,
            call_id=start.call_id,
            ttft_ms=ttft_ms,
            input=None if ttft_ms is None else 0,
            output=tokens,
            cost_usd=cost,
        )


@pytest.fixture
def bank(tmp_path):
    bank = Bank(tmp_path)
    yield bank
    bank.gate.close()
