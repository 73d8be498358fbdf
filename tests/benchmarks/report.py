"""Writes ``docs/performance.md`` from the results and the prose in ``performance_template.md``."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template

from figures import (
    COMPARISONS,
    CURVES,
    HEADINGS,
    Comparison,
    Curve,
    harness,
    number,
    rows,
    values,
)
from results import Measured, Results

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
TEMPLATE = Path(__file__).with_name("performance_template.md")
NOT_MEASURED = "Not measured yet."


def page(results: Results) -> str:
    """Return the whole page."""
    most = main_run(results)
    sections = {
        "where": where(most),
        "others": other_runs(results, most),
        "table": markdown_table(HEADINGS, [row.cells for row in rows(results)]),
        **{one.name: comparison(one, results) for one in COMPARISONS},
        "harness": harness(results) or "The harness's own cost was not measured.",
        **{f"curve_{curve.name}": chart_and_table(curve, results) for curve in CURVES},
    }
    return Template(TEMPLATE.read_text("utf-8")).substitute(sections)


def comparison(subjects: Comparison, results: Results) -> str:
    """Return several subjects' figures as a table."""
    found = subjects.rows(results)
    return markdown_table(subjects.headings, found) if found else NOT_MEASURED


def where(measured: Measured) -> str:
    """Say when and on what it was measured."""
    machine = measured.machine
    packages = ", ".join(f"{name} {number}" for name, number in machine.packages.items())
    quick = (
        " **This was a quick run: one round of little work. Don't take its figures for more.**"
        if measured.quick
        else ""
    )
    return (
        f"Measured on {measured.date} (UTC): {machine.processor}, {machine.cores} cores, "
        f"{machine.memory_gib:g} GiB of memory, {machine.system}, Python {machine.python}, data on "
        f"{machine.data_on}; {packages}.{quick}"
    )


def main_run(results: Results) -> Measured:
    """Return a measure of the run that most measures are of, of the last one of these."""
    runs = Counter(measured.at for measured in results.measures.values())
    return max(results.measures.values(), key=lambda measured: (runs[measured.at], measured.at))


def other_runs(results: Results, most: Measured) -> str:
    """Say which measures are of other runs."""
    others = [
        f"`{name}` ({measured.date}{', quick' if measured.quick else ''}"
        f"{', another machine or other versions' if measured.machine != most.machine else ''})"
        for name, measured in sorted(results.measures.items())
        if measured.at != most.at
    ]
    return f"Measured in other runs: {', '.join(others)}." if others else "All in one run."


def chart_and_table(curve: Curve, results: Results) -> str:
    """Return a curve as a chart and its points as a table."""
    found = values(curve, results)
    if not found:
        return NOT_MEASURED
    drawn = [
        line
        for index in range(curve.charted)
        if None not in (line := [at[index] for at in found.values()])
    ]
    headings = [curve.points, *(line.heading for line in curve.lines)]
    cells = [[f"{point:,}", *(_cell(value) for value in at)] for point, at in found.items()]
    table = markdown_table(headings, cells)
    if not drawn:
        return table
    lines = [f"    line [{', '.join(f'{value:.4g}' for value in line)}]" for line in drawn]
    chart = [
        "```mermaid",
        "xychart-beta",
        f'    title "{curve.title}"',
        f'    x-axis "{curve.points}" [{", ".join(str(point) for point in found)}]',
        f'    y-axis "{curve.unit}" 0 --> {max(map(max, drawn)) * 1.1:.3g}',
        *lines,
        "```",
    ]
    return "\n".join(chart) + "\n\n" + table


def markdown_table(headings: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is text and whose others are numbers."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: float | None) -> str:
    return "" if value is None else number(value, "-").removesuffix(" -")
