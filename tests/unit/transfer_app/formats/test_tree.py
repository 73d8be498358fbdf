"""Ways through trees: circles end, missing parents begin, branches are bounded."""

from collections.abc import Sequence

import pytest

from transfer_app.formats.conversation import ImportedMessage
from transfer_app.formats.tree import (
    MOST_BRANCHES,
    MOST_NODES,
    branches_of,
    leaves_of,
    path_to,
)


def read(path: Sequence[str]) -> Sequence[ImportedMessage]:
    return [ImportedMessage(role="user", key=node, content=node) for node in path]


def test_a_path_ends_at_a_missing_parent_and_at_a_circle() -> None:
    assert path_to("c", {"a": "lost", "b": "a", "c": "b"}) == ("a", "b", "c")
    assert path_to("b", {"a": "b", "b": "a"}) == ("a", "b")
    assert path_to("a", {"a": "a"}) == ("a",)


def test_leaves_are_what_nothing_follows() -> None:
    assert leaves_of({"a": None, "b": "a", "c": "a"}) == ("b", "c")


def test_without_a_current_node_the_last_leaf_is_shown() -> None:
    parents = {"a": None, "b": "a", "c": "a"}
    (shown,), left_out = branches_of(parents, "lost", read, all_branches=False)
    assert [message.key for message in shown.messages] == ["a", "c"]
    assert left_out == 0


def test_branches_beyond_the_bound_are_counted() -> None:
    parents: dict[str, str | None] = {"root": None}
    parents |= {str(number): "root" for number in range(MOST_BRANCHES + 10)}
    branches, left_out = branches_of(parents, "0", read, all_branches=True)
    assert (len(branches) - 1, left_out) == (MOST_BRANCHES, 9)


def test_nodes_without_messages_are_walked_so_many_times_and_no_more() -> None:
    parents: dict[str, str | None] = {"0": None}
    parents |= {str(number): str(number - 1) for number in range(1, 3_000)}
    parents |= {f"leaf {number}": "2999" for number in range(5_000)}
    walked = 0

    def read_first(path: Sequence[str]) -> Sequence[ImportedMessage]:
        nonlocal walked
        walked += len(path)
        return read(path[:1])

    branches, left_out = branches_of(parents, "leaf 0", read_first, all_branches=True)
    assert len(branches) == 1
    assert MOST_NODES < walked < MOST_NODES + 10_000
    assert left_out == 5_000 - walked // 3_001


@pytest.mark.parametrize("is_shared", [True, False])
def test_texts_that_branches_do_not_share_are_bounded(
    monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    monkeypatch.setattr("transfer_app.formats.tree.MOST_CHARACTERS", 3999)
    parents: dict[str, str | None] = {"root": None}
    parents |= {str(number): "root" for number in range(12)}
    shared = "x" * 1001

    def read_long(path: Sequence[str]) -> Sequence[ImportedMessage]:
        texts = [shared if is_shared else shared[1:], ""]
        return [
            ImportedMessage(role="user", key=node, content=text)
            for node, text in zip(path, texts, strict=True)
        ]

    branches, left_out = branches_of(parents, "0", read_long, all_branches=True)
    assert (len(branches) - 1, left_out) == ((11, 0) if is_shared else (4, 7))
