"""Compares the tags of objects. Pure."""


def same_tag(one: str, other: str) -> bool:
    """Return whether two tags are the same; some listings leave their quotation marks out."""
    return one.strip('"') == other.strip('"')
