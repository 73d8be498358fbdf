"""Declares the answer of metrics as JSON."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_EXAMPLE: dict[str, Any] = {
    "metrics": {
        "mochi_turns_total": [
            {"labels": {"status": "completed", "dialect": "native"}, "value": 42.0}
        ],
        "mochi_active_turns": [{"labels": {}, "value": 1.0}],
    }
}


class MetricValueOut(BaseModel):
    """A value of a metric."""

    labels: dict[str, str]
    value: float


class MetricsOut(BaseModel):
    """The metrics of all processes of the server."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    metrics: dict[str, list[MetricValueOut]] = Field(
        description="The values by the metric's name; of a histogram its `_sum` and `_count`"
    )
