"""What needs a scope beyond that of its route."""

from dataclasses import replace

import pytest

from mochi_project.keys.key import ScopeMissing, require_scope
from mochi_project.principal import OPERATOR, acting_for


def test_who_lacks_a_scope_is_told_which() -> None:
    with acting_for(replace(OPERATOR, scopes=frozenset({"chat"}))):
        require_scope("chat")
        with pytest.raises(ScopeMissing, match="'approve'") as refused:
            require_scope("approve")

    assert (refused.value.code, refused.value.details) == ("FORBIDDEN", {"scope": "approve"})
