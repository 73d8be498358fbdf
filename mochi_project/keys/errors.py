"""Declares the errors of keys.

The tree::

    MochiError
      * KeyNotFound       KEY_NOT_FOUND
      * KeysInvalid       KEYS_INVALID
      * ScopeMissing      FORBIDDEN
"""

from sessions_app.errors import MochiError


class KeyNotFound(MochiError):
    """No key has this id."""

    code = "KEY_NOT_FOUND"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"There is no key {key_id!r}; `mochi-server keys list` shows them.")


class KeysInvalid(MochiError):
    """``keys.json`` can't be used."""

    code = "KEYS_INVALID"

    def __init__(self, reason: str) -> None:
        super().__init__(f"keys.json can't be used. Fix it, or remove it: {reason}", reason=reason)


class ScopeMissing(MochiError):
    """The client may do other things, but not this."""

    code = "FORBIDDEN"

    def __init__(self, scope: str) -> None:
        super().__init__(
            f"This needs the scope '{scope}', which the key of this request does not have: "
            "who runs the server can make one that has it (mochi-server keys add --scopes).",
            scope=scope,
        )
