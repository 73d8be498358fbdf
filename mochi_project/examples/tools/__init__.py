"""The tools of this folder: what ``__all__`` lists is offered to models.

A name between double underscores is a group, so that a session can take its tools all at once.
"""

from .math_tools import add_numbers, divide_numbers, multiply_numbers, subtract_numbers
from .utility_tools import flip_coin, get_current_time, roll_dice

__all__ = [
    "add_numbers",
    "divide_numbers",
    "flip_coin",
    "get_current_time",
    "multiply_numbers",
    "roll_dice",
    "subtract_numbers",
]

__math__ = ["add_numbers", "subtract_numbers", "multiply_numbers", "divide_numbers"]
__utilities__ = ["get_current_time", "flip_coin", "roll_dice"]
