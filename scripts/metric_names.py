"""Generates the table of metrics, from the file that names them."""

from usage_app.metrics.names import METRICS, METRICS_BY_OWNER, Metric

HEAD = ("Metric", "Type", "Labels", "What it says")


def metric_table() -> str:
    """Return the table: name, type, labels and meaning."""
    rows = [HEAD, ("---",) * len(HEAD), *map(_row, (*METRICS, *METRICS_BY_OWNER))]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(metric: Metric) -> tuple[str, str, str, str]:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"`{metric.name}`", metric.kind, labels, metric.help
