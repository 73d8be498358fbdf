"""Compares ETags of objects. Pure."""


def same_tag(one: str, other: str) -> bool:
    """Return whether two ETags are equal, ignoring quotes, which some listings leave out."""
    return one.strip('"') == other.strip('"')
