"""Names that clients make up are forgotten again."""

from models_app.bounded_dict import MOST_NAMES, remember


def test_a_thousand_names_are_remembered_and_the_oldest_goes() -> None:
    known: dict[str, int] = {}
    for number in range(MOST_NAMES + 1):
        remember(known, f"m{number}", number)
    assert len(known) == MOST_NAMES
    assert "m0" not in known


def test_what_was_noted_again_is_new() -> None:
    known: dict[str, int] = {}
    for number in range(MOST_NAMES):
        remember(known, f"m{number}", number)
    remember(known, "m0", -1)
    remember(known, "another", 0)
    assert known["m0"] == -1
    assert "m1" not in known
