import pytest

from tools_app.policy import must_ask


@pytest.mark.parametrize(
    ("policy", "harmless", "destructive"),
    [
        ("always_confirm", True, True),
        ("never_confirm", False, False),
        ("confirm_destructive", False, True),
        ("confirm_at_full_moon", True, True),
        ("", True, True),
    ],
)
def test_the_policy_says_who_is_asked(policy: str, harmless: bool, destructive: bool) -> None:
    def asks(is_destructive: bool) -> bool:
        return must_ask(tool_name="t", destructive=is_destructive, policy=policy, overrides={})

    assert (asks(False), asks(True)) == (harmless, destructive)


@pytest.mark.parametrize("policy", ["always_confirm", "never_confirm", "confirm_destructive"])
@pytest.mark.parametrize(
    ("override", "asks"),
    [("always_confirm", True), ("never_confirm", False), ("unheard_of", True)],
)
def test_the_policy_of_a_single_tool_wins(policy: str, override: str, asks: bool) -> None:
    overrides = {"t": override, "other": "never_confirm"}

    assert must_ask(tool_name="t", destructive=True, policy=policy, overrides=overrides) is asks


@pytest.mark.parametrize(
    ("policy", "overrides", "asks"),
    [
        ("never_confirm", {}, False),
        ("always_confirm", {"erase": "never_confirm"}, True),  # the session's own tool was meant
        ("never_confirm", {"erase": "always_confirm"}, True),
        ("confirm_destructive", {"erase": "confirm_destructive"}, True),
        ("always_confirm", {"coder.erase": "never_confirm"}, False),
        ("never_confirm", {"coder.erase": "always_confirm", "erase": "never_confirm"}, True),
        ("always_confirm", {"other.erase": "never_confirm"}, True),
    ],
)
def test_a_bare_name_only_tightens_for_an_agents_tool(
    policy: str, overrides: dict[str, str], asks: bool
) -> None:
    asked = must_ask(
        tool_name="erase",
        destructive=True,
        policy=policy,
        overrides=overrides,
        agent_name="coder",
    )

    assert asked is asks
