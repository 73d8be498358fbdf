"""Notes in a header what of a request could not be done, and what of an answer is left out."""

from collections.abc import Sequence

WARNING_HEADER = "x-mochi-warning"
MOST_CHARACTERS = 1000


def warning_headers(sentences: Sequence[str]) -> dict[str, str]:
    """Return the header with these sentences, or none if there are none.

    A header holds one line of ASCII, whoever wrote the sentences: some are a provider's.
    """
    if not sentences:
        return {}
    line = " ".join("; ".join(sentences).split())
    shown = line.encode("ascii", "replace").decode()
    printable = "".join(each if each.isprintable() else "?" for each in shown)
    return {WARNING_HEADER: printable[:MOST_CHARACTERS]}
