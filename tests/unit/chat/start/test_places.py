"""The places for turns in a process, which several registries share."""

import pytest

from chat.errors import TooManyTurns, TooManyTurnsOfClient
from chat.start.places import TurnPlaces


def test_a_place_that_was_given_back_can_be_taken_again() -> None:
    places = TurnPlaces(2)
    give_back = [places.take(None), places.take("a")]
    with pytest.raises(TooManyTurns):
        places.take("b")
    give_back[0]()
    places.take("b")


def test_a_client_that_is_refused_takes_no_place() -> None:
    places = TurnPlaces(2, per_client=1)
    places.take("a")
    for _ in range(3):
        with pytest.raises(TooManyTurnsOfClient):
            places.take("a")
    places.take("b")
