"""Prices: the user's file goes first, what nobody knows is unknown."""

import json
import logging
import os
import subprocess
import sys
from decimal import Decimal

import msgspec
import pytest

from models_app.language_model import Finished
from usage_app.price import Price
from usage_app.prices import PriceList

TOKENS = Finished("stop", 1_000_000, 100_000)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "prices.json"


def write(path, prices):
    path.write_text(json.dumps(prices) if not isinstance(prices, str) else prices)


def price(prices, provider, model, tokens=TOKENS):
    prices.load(provider)
    return prices.price_of(provider, model, tokens)


def test_a_vendors_prices_are_the_librarys(path):
    found = price(PriceList(path), "openai", "gpt-5.1")

    assert found == Price(Decimal("2.25"), "genai-prices")
    assert found.text == "2.25"


@pytest.mark.parametrize(
    ("provider", "model"), [("openai", "no-such-model"), ("mine", "gpt-5.1"), ("", "")]
)
def test_what_nobody_knows_is_unknown_and_not_free(path, provider, model):
    assert price(PriceList(path), provider, model) is None


@pytest.mark.parametrize("tokens", [Finished(), Finished("stop", 5, None)])
@pytest.mark.parametrize("provider", ["openai", "mine"])
def test_a_call_whose_tokens_are_unknown_has_no_price(path, provider, tokens):
    write(path, {"mine:*": {"input_per_million": 1, "output_per_million": 1}})

    assert price(PriceList(path), provider, "gpt-5.1", tokens) is None


def test_models_of_ollama_cost_nothing(path):
    assert price(PriceList(path), "ollama", "qwen3:14b") == Price(Decimal(0), "local")


def test_the_users_prices_go_first(path):
    write(
        path,
        {
            "openai:gpt-5.1": {"input_per_million": "0.1", "output_per_million": 0.3},
            "ollama:*": {"input_per_million": 0.01, "output_per_million": 0},
        },
    )
    prices = PriceList(path)

    assert price(prices, "openai", "gpt-5.1") == Price(Decimal("0.13"), "prices.json")
    assert price(prices, "ollama", "qwen3:14b") == Price(Decimal("0.01"), "prices.json")


def test_cached_tokens_are_part_of_the_input(path):
    prices = PriceList(path)
    tokens = Finished("stop", 1_000_000, 0, 400_000, None, 100_000)
    usual = {"input_per_million": 1, "output_per_million": 1}

    write(path, {"mine:*": {**usual, "cached_per_million": 0.1, "cache_write_per_million": 2}})
    assert price(prices, "mine", "m", tokens).amount == Decimal("0.74")
    write(path, {"mine:*": usual})
    assert price(prices, "mine", "m", tokens).amount == 1
    assert price(prices, "anthropic", "claude-sonnet-4-5", tokens) is not None


def test_tokens_kept_for_an_hour_have_a_price_of_their_own(path):
    prices = PriceList(path)
    # Half of what was written is kept for an hour.
    tokens = Finished("stop", 1_000_000, 0, 400_000, None, 200_000, 100_000)
    usual = {"input_per_million": 1, "output_per_million": 1, "cache_write_per_million": 2}

    write(path, {"mine:*": {**usual, "cache_write_1h_per_million": 4}})
    assert price(prices, "mine", "m", tokens).amount == Decimal("1.4")
    write(path, {"mine:*": usual})
    assert price(prices, "mine", "m", tokens).amount == Decimal("1.2")
    five_minutes = msgspec.structs.replace(tokens, cache_write_1h_count=None)
    costs = [
        price(prices, "anthropic", "claude-sonnet-4-5", it).amount for it in (tokens, five_minutes)
    ]
    assert costs[0] > costs[1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("big-1", "3"), ("big-2", "2"), ("small", "1"), ("a[b]?c", "4"), ("axbxc", "1")],
)
def test_the_longest_pattern_that_fits_goes_first(path, name, expected):
    def costs(amount):
        return {"input_per_million": amount, "output_per_million": 0}

    write(
        path,
        {
            "*": costs(9),
            "mine:*": costs(1),
            "mine:big*": costs(2),
            "mine:big-1": costs(3),
            "mine:a[b]?*": costs(4),
        },
    )
    assert price(PriceList(path), "mine", name).text == expected


def test_changes_hold_without_a_restart(path):
    prices = PriceList(path)
    assert price(prices, "mine", "m") is None
    write(path, {"mine:*": {"input_per_million": 1, "output_per_million": 0}})
    assert price(prices, "mine", "m").text == "1"
    write(path, {"mine:*": {"input_per_million": 22, "output_per_million": 0}})
    assert price(prices, "mine", "m").text == "22"
    path.unlink()
    assert price(prices, "mine", "m") is None


BAD = [
    ("{", "prices.json is not JSON: Input data was truncated."),
    ("[]", "prices.json must be a valid dictionary (it is [])."),
    ({"mine:*": {"input_per_million": 1}}, "`output_per_million` is missing."),
    (
        {"mine:*": {"input": 1, "output": 1}},
        "prices.json, `mine:*`: it has no `input`; fields are `input_per_million`, `output_",
    ),
    (
        {"mine:*": {"input_per_million": -1, "output_per_million": 1}},
        "`input_per_million` must be greater than or equal to 0 (it is -1).",
    ),
    ({"mine:*": {"input_per_million": "NaN", "output_per_million": 1}}, "(it is 'NaN')"),
    (
        {"mine:*": {"input_per_million": "dear", "output_per_million": 1}},
        "`input_per_million` must be a valid decimal (it is 'dear').",
    ),
    ({"gpt-5.1": {"input_per_million": 1, "output_per_million": 1}}, "no provider in front"),
]


@pytest.mark.parametrize(("content", "words"), BAD)
def test_a_bad_file_is_said_once_and_others_prices_hold(path, content, words, caplog):
    write(path, content)
    prices = PriceList(path)

    assert price(prices, "mine", "m") is None
    assert price(prices, "openai", "gpt-5.1") is not None
    assert words in prices.problem
    messages = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(messages) == 1
    assert prices.problem in messages[0].getMessage()

    write(path, {"mine:*": {"input_per_million": 1, "output_per_million": 0}})
    assert price(prices, "mine", "m").text == "1"
    assert prices.problem is None


def test_without_the_library_vendors_prices_are_unknown_and_that_is_said_once(
    path, caplog, monkeypatch
):
    monkeypatch.setitem(sys.modules, "usage_app.price_library", None)
    prices = PriceList(path)

    assert price(prices, "openai", "gpt-5.1") is None
    assert price(prices, "openai", "gpt-4o") is None
    assert [each.levelno for each in caplog.records] == [logging.ERROR]


def test_what_is_no_file_is_said(path):
    os.mkfifo(path)
    prices = PriceList(path)
    prices.refresh()

    assert "prices.json can't be read" in prices.problem


def test_the_library_is_imported_when_a_vendor_is_asked_and_not_before(tmp_path):
    program = f"""
import sys
from pathlib import Path
from usage_app.prices import PriceList
from models_app.language_model import Finished
prices = PriceList(Path({str(tmp_path / "prices.json")!r}))
prices.load("ollama"), prices.load("mine")
assert prices.cost_of("openai", "gpt-5.1", Finished("stop", 1, 1)) is None
assert not [name for name in sys.modules if name.startswith("genai_prices")]
assert prices.are_due("openai")
prices.load("openai")
assert "genai_prices" in sys.modules
assert prices.cost_of("openai", "gpt-5.1", Finished("stop", 1, 1))
assert not prices.are_due("openai")
known = set(sys.modules)
assert prices.cost_of("openai", "gpt-4o", Finished("stop", 1, 1, 1, None, 1))
assert set(sys.modules) == known
"""
    subprocess.run([sys.executable, "-c", program], check=True)
