"""Who code acts for, which nobody is by default."""

import asyncio
from contextvars import Context

import pytest

from mochi_project.principal import OPERATOR, SCOPES, InvalidOwner, Principal, acting_for, principal


def test_code_that_nobody_sent_acts_for_nobody() -> None:
    with pytest.raises(LookupError):
        Context().run(principal)


def test_a_block_acts_for_an_owner_and_what_is_outside_for_the_former_one() -> None:
    anna = Principal("anna", frozenset({"read"}), key_id="k1")

    with acting_for("bob"):
        with acting_for(anna):
            assert principal() == anna
        assert principal() == Principal("bob", SCOPES)


def test_a_task_acts_for_whom_its_maker_did() -> None:
    async def owner_of_task() -> str:
        with acting_for("anna"):
            task = asyncio.create_task(_owner())
        with acting_for("bob"):
            return await task

    assert asyncio.run(owner_of_task()) == "anna"


async def _owner() -> str:
    return principal().owner


@pytest.mark.parametrize("name", ["default", "anna", "a", "0.b_c-d", "a..b", "x" * 64])
def test_a_name_of_an_owner_is_the_name_of_a_folder(name: str) -> None:
    assert Principal(name, SCOPES).owner == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../anna", "a/b", "a\\b", "Anna", "-a", ".a", "a\n", "ä", "x" * 65]
)
def test_a_path_is_no_name_of_an_owner(name: str) -> None:
    with pytest.raises(InvalidOwner, match="is no name of an owner"), acting_for(name):
        pass


def test_the_operator_has_all_scopes_of_the_data_that_was_always_there() -> None:
    assert Principal("default", SCOPES) == OPERATOR
