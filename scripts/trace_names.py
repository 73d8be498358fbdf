"""Generates the table of the attributes of spans, from the file that names them."""

from usage_app.traces.names import ATTRIBUTES, Attribute

HEAD = ("Attribute", "Spans", "Meaning")


def attribute_table() -> str:
    """Return the table: the newest names, the former ones, and what they say."""
    rows = [HEAD, ("---",) * len(HEAD), *map(_row, ATTRIBUTES)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(attribute: Attribute) -> tuple[str, str, str]:
    former = [f"`{name}`" for name in attribute.former if name != attribute.name]
    meaning = attribute.meaning
    if former:
        meaning += f"; up to 1.36 also {', '.join(former)}"
    if attribute.is_content:
        meaning += "; only where contents are asked for"
    return f"`{attribute.name}`", ", ".join(attribute.spans), meaning
