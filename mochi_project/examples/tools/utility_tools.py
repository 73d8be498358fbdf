"""Tools for what a language model lacks: the time, and chance."""

import random
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

__all__ = ["flip_coin", "get_current_time", "roll_dice"]
__utilities__ = ["get_current_time", "flip_coin", "roll_dice"]
__destructive__: list[str] = []

_chance = random.SystemRandom()


def get_current_time() -> str:
    """Tell the current date and time of this machine, with its offset from UTC."""
    return datetime.now(UTC).astimezone().strftime("%A, %Y-%m-%d %H:%M:%S %z")


def flip_coin() -> str:
    """Flip a coin: heads or tails."""
    return _chance.choice(["heads", "tails"])


def roll_dice(
    sides: Annotated[int, Field(ge=2, le=1000)] = 6,
    count: Annotated[int, Field(ge=1, le=100)] = 1,
) -> str:
    """Roll dice and tell what each shows, and their sum.

    Args:
        sides: How many sides each die has.
        count: How many dice are rolled.
    """
    rolled = [_chance.randint(1, sides) for _ in range(count)]
    return f"{', '.join(map(str, rolled))} (sum {sum(rolled)})"
