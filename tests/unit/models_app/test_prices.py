"""Money is written as a decimal number, and nothing else is read."""

from decimal import Decimal

import pytest

from models_app.prices import money, read_money


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "0"), ("10", "10"), ("1.500", "1.5"), ("1E+2", "100"), ("1E-9", "0.000000001")],
)
def test_money_has_no_exponent_and_no_empty_digits(amount, text):
    assert money(Decimal(amount)) == text
    assert read_money(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "-1", "1e9", "NaN", "1.", ".5", "1,5", "1" * 60])
def test_what_is_no_money_is_not_read(text):
    assert read_money(text) is None
