"""Arithmetic, which language models are bad at."""

# What is listed here is offered to models.
__all__ = ["add_numbers", "divide_numbers", "multiply_numbers", "subtract_numbers"]

# A list between double underscores is a group, so that a session can take its tools all at once.
__math__ = ["add_numbers", "subtract_numbers", "multiply_numbers", "divide_numbers"]

# Tools that change or destroy something are listed here, so that a person can be asked first.
# A module without this list counts as destructive throughout.
__destructive__: list[str] = []


def add_numbers(a: float, b: float) -> str:
    """Add two numbers together.

    Args:
        a: The first number to add.
        b: The second number to add.
    """
    return str(a + b)


def subtract_numbers(a: float, b: float) -> str:
    """Subtract one number from another.

    Args:
        a: The number to subtract from.
        b: The number to subtract.
    """
    return str(a - b)


def multiply_numbers(a: float, b: float) -> str:
    """Multiply two numbers.

    Args:
        a: The first factor.
        b: The second factor.
    """
    return str(a * b)


def divide_numbers(a: float, b: float) -> str:
    """Divide one number by another.

    Args:
        a: The number to divide.
        b: The number to divide by; not zero.
    """
    if b == 0:
        # What a tool raises is told to the model, which can then do better.
        raise ValueError("A number can't be divided by zero.")
    return str(a / b)
