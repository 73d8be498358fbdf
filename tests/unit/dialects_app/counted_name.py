"""A name that counts how often it is looked at, for what has to stay linear."""


class CountedName(str):
    """A text that counts its comparisons and hashes, all of them together."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other):
        CountedName.looks += 1
        return str.__eq__(self, other)

    def __hash__(self):
        CountedName.looks += 1
        return str.__hash__(self)
