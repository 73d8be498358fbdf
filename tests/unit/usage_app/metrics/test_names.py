"""Metrics have names that Prometheus's linter accepts, and a bounded number of series."""

import re

import pytest

from usage_app.metrics.names import METRICS, METRICS_BY_OWNER, OTHER, BoundedNames


def test_no_two_metrics_have_one_name():
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", [*METRICS, *METRICS_BY_OWNER], ids=lambda metric: metric.name)
def test_a_metric_is_named_as_prometheus_advises(metric):
    assert re.fullmatch(r"mochi(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") is (metric.kind == "counter")
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")
    assert metric.help.endswith(".")


@pytest.mark.parametrize("metric", [*METRICS, *METRICS_BY_OWNER], ids=lambda metric: metric.name)
def test_nothing_is_counted_by_session_or_turn(metric):
    assert not {"session", "session_id", "turn", "turn_id", "message_id"} & set(metric.labels)


def test_more_names_than_are_allowed_count_together():
    bounded = BoundedNames(2)

    shown = [bounded(name) for name in ("a", "b", "c", "a", "d", "b")]

    assert shown == ["a", "b", OTHER, "a", OTHER, "b"]
