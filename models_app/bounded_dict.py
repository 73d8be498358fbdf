"""What was found out lately, by names that clients may make up."""

from typing import TypeVar

MOST_NAMES = 1000

Value = TypeVar("Value")


def remember(known: dict[str, Value], name: str, value: Value) -> None:
    """Note down what is known under a name; beyond a thousand, the one noted first is forgotten.

    Some servers answer to any name: without a bound, every misspelt one would stay.
    """
    known.pop(name, None)
    known[name] = value
    if len(known) > MOST_NAMES:
        del known[next(iter(known))]
