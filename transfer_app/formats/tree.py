"""Finds the branches of a conversation whose messages refer to their parents. Pure.

The tree is untrusted: parents may be missing, and there may be cycles.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from transfer_app.formats.conversation import Branch, ImportedMessage
from transfer_app.formats.values import as_text, objects

MOST_BRANCHES = 100
"""The maximum branches imported from a conversation, besides the shown one."""
MOST_MESSAGES = 100_000
"""The maximum total messages of these branches."""
MOST_NODES = 300_000
"""The maximum total nodes walked for them: many of a path may hold no message."""
MOST_CHARACTERS = 256 * 1024 * 1024
"""The maximum total characters, and bytes of files, that these branches do not share."""

Read = Callable[[Sequence[str]], Sequence[ImportedMessage]]
"""Returns the messages of the nodes on a path, oldest first."""


def parents_of(nodes: Mapping[str, Mapping[str, Any]], field: str) -> Mapping[str, str | None]:
    """Return the parent of each message of a list: the named one, or else the previous message.

    Args:
        nodes: The messages by id, in the order of the list.
        field: The field with the id of the parent. Messages without it follow the previous one.
    """
    return {
        key: as_text(each[field]) or None if field in each else previous
        for (key, each), previous in zip(nodes.items(), (None, *nodes), strict=False)
    }


def nodes_of(listed: object, field: str) -> dict[str, Mapping[str, Any]]:
    """Return the messages of a list by the id in a field, or else by their place in the list."""
    nodes: dict[str, Mapping[str, Any]] = {}
    for index, each in enumerate(objects(listed)):
        nodes[free_key(as_text(each.get(field)) or str(index), nodes)] = each
    return nodes


def free_key(key: str, nodes: Collection[str]) -> str:
    """Return an id for a message of a list, also where an earlier one has the same."""
    while key in nodes:
        key = f"{key}#{len(nodes)}"
    return key


def path_to(node: str, parents: Mapping[str, str | None]) -> Sequence[str]:
    """Return the nodes from the root, or from a missing parent or a cycle, to a node."""
    path: dict[str, None] = {}
    at: str | None = node
    while at is not None and at in parents and at not in path:
        path[at] = None
        at = parents[at]
    return tuple(reversed(path))


def leaves_of(parents: Mapping[str, str | None]) -> Sequence[str]:
    """Return the leaves in the order of the export."""
    followed = set(parents.values())
    return tuple(node for node in parents if node not in followed)


def branches_of(
    parents: Mapping[str, str | None], current: object, read: Read, *, all_branches: bool
) -> tuple[Sequence[Branch], int]:
    """Return the shown branch, then the others, and the number of branches left out.

    Args:
        parents: The parent of each node, by node id.
        current: The last node of the shown branch; if it does not exist, the last leaf is used.
        read: Returns the messages of a path.
        all_branches: Whether to return the other branches, too.
    """
    if not parents:
        return (), 0
    leaves = leaves_of(parents)
    if not isinstance(current, str) or current not in parents:
        current = leaves[-1] if leaves else tuple(parents)[-1]
    shown = read(path_to(current, parents))
    branches = [Branch(messages=shown)]
    if not all_branches:
        return branches, 0
    left_out = total = walked = characters = 0
    held: set[int] = set()
    _held(shown, held)
    known = {message.key for message in shown}
    for leaf in leaves:
        if leaf == current:
            continue
        if (
            len(branches) > MOST_BRANCHES
            or total > MOST_MESSAGES
            or walked > MOST_NODES
            or characters > MOST_CHARACTERS
        ):
            left_out += 1
            continue
        path = path_to(leaf, parents)
        walked += len(path)
        messages = read(path)
        total += len(messages)
        # In a tree, a known last message means that the whole path is known.
        if messages and messages[-1].key not in known:
            known.update(message.key for message in messages)
            characters += _held(messages, held)
            branches.append(Branch(messages=messages, leaf=leaf, shared=_shared(shown, messages)))
    return branches, left_out


def _held(messages: Sequence[ImportedMessage], others: set[int]) -> int:
    """Return the size of the texts and files of a branch that no other branch holds in memory.

    Args:
        messages: The messages, which are kept.
        others: The identities of those of other branches; this one's are added.
    """
    size = 0
    for message in messages:
        files = [file.data for file in message.files]
        for each in (message.content, message.thinking, *files):
            if each is not None and id(each) not in others:
                others.add(id(each))
                size += len(each)
    return size


def _shared(one: Sequence[ImportedMessage], other: Sequence[ImportedMessage]) -> int:
    pairs = zip(map(_compared, one), map(_compared, other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _compared(message: ImportedMessage) -> object:
    """Return the values to compare messages by, without arguments, which may be deeply nested."""
    calls = [call.id for call in message.tool_calls]
    return message.key, message.content, message.thinking, calls
