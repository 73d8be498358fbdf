"""Records of the ledger, as tests of reports need them."""

from usage_app.record import UsageRecord


def record(day="2026-11-22", **more):
    values = {
        "provider": "openai",
        "model": "gpt-5.1",
        "purpose": "chat",
        "status": "ok",
        "ms": 5,
        "input": 10,
        "output": 2,
        **more,
    }
    return UsageRecord(v=1, t=f"{day}T10:00:00.000Z", **values)
