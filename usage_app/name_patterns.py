"""Matches the names of models with patterns in which ``*`` stands for any text. Pure."""


def literal_but_stars(pattern: str) -> str:
    """Return a pattern for ``fnmatch`` in which all but the star stands for itself."""
    return pattern.replace("[", "[[]").replace("?", "[?]")
