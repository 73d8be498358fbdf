"""The dashboard asks for metrics that there are, by labels that they have."""

import json
import re
from pathlib import Path

import pytest

from usage_app.metrics.names import METRICS

DASHBOARD = Path(__file__).parents[4] / "examples/grafana/mochi-server.json"
PANELS = json.loads(DASHBOARD.read_text())["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
BY_NAME = {metric.name: metric for metric in METRICS}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_a_metric_and_its_labels(query):
    (name,) = set(re.findall(r"mochi_\w+", query))
    metric = BY_NAME[name.removesuffix("_bucket")]
    assert name.endswith("_bucket") is (metric.kind == "histogram")
    for labels in re.findall(r"by \(([^)]*)\)", query):
        assert set(re.split(r", *", labels)) - {"le"} <= set(metric.labels)


def test_every_metric_is_shown():
    assert {name for name in BY_NAME if name not in " ".join(QUERIES)} == set()


def test_panels_do_not_overlap():
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS}) == len(PANELS)
