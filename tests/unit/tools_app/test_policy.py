import pytest

from sessions_app.policy_scope import PolicyScope
from sessions_app.session import ToolSettings
from tools_app.policy import PoliciesOfTool, RememberedPolicy, must_ask, policies_of, relaxes


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


def scope(policy: str = "never_confirm", **globs: str) -> PolicyScope:
    return PolicyScope(policy=policy, arguments=globs)


@pytest.mark.parametrize(
    ("scopes", "path", "asks"),
    [
        ([scope(path="src/*")], "src/a", False),
        ([scope(path="src/*")], "etc/a", True),
        ([scope(path="src/*"), scope(path="etc/*")], "etc/a", False),
        ([scope(path="src/*"), scope("always_confirm", path="*.env")], "src/.env", True),
        ([scope("always_confirm", path="*.env"), scope(path="src/*")], "src/.env", True),
        ([scope("unheard_of", path="src/*")], "src/a", True),
        ([scope("confirm_destructive", path="src/*")], "src/a", True),
    ],
)
@pytest.mark.parametrize("agent", [None, "coder"])
def test_a_scope_wins_over_the_policies_for_the_calls_that_it_covers(
    scopes: list[PolicyScope], path: str, asks: bool, agent: str | None
) -> None:
    name = "write" if agent is None else f"{agent}.write"
    asked = must_ask(
        tool_name="write",
        destructive=True,
        policy="always_confirm",
        overrides={name: "always_confirm"},
        agent_name=agent,
        scopes={name: scopes},
        arguments={"path": path},
    )
    assert asked is asks


@pytest.mark.parametrize(
    ("agent", "named"), [("coder", "write"), (None, "coder.write"), ("coder", "other.write")]
)
def test_a_scope_is_for_the_tool_that_it_names_and_no_other(agent: str | None, named: str) -> None:
    assert must_ask(
        tool_name="write",
        destructive=True,
        policy="confirm_destructive",
        overrides={},
        agent_name=agent,
        scopes={named: [scope(path="*")]},
        arguments={"path": "a"},
    )


def test_a_remembered_approval_sets_the_policy_of_its_tool_alone() -> None:
    settings = ToolSettings(tool_policies={"read": "always_confirm"})
    changed = RememberedPolicy(tool="write", replaces=policies_of(settings, "write")).applied_to(
        settings
    )
    assert changed.tool_policies == {"read": "always_confirm", "write": "never_confirm"}
    assert changed.execution_policy == "always_confirm"


def test_remembered_arguments_are_added_and_all_other_calls_ask() -> None:
    settings = ToolSettings(execution_policy="confirm_destructive")
    before = policies_of(settings, "write")
    for path in ("src/*", "docs/*", "src/*"):
        remembered = RememberedPolicy(tool="write", arguments={"path": path}, replaces=before)
        settings = remembered.applied_to(settings)
    assert settings.tool_policies == {"write": "always_confirm"}
    assert settings.tool_scopes == {"write": (scope(path="src/*"), scope(path="docs/*"))}
    remembered = RememberedPolicy(tool="write", replaces=policies_of(settings, "write"))
    whole = remembered.applied_to(settings)
    assert (whole.tool_policies, whole.tool_scopes) == ({"write": "never_confirm"}, {})


@pytest.mark.parametrize("arguments", [None, {"path": "src/*"}])
@pytest.mark.parametrize(
    ("replaces", "now"),
    [(None, "always_confirm"), ("always_confirm", "confirm_destructive"), ("always_confirm", None)],
)
def test_a_policy_that_was_set_since_the_approval_stays(
    arguments: dict[str, str] | None, replaces: str | None, now: str | None
) -> None:
    settings = ToolSettings(tool_policies={} if now is None else {"write": now})
    before = PoliciesOfTool("always_confirm", replaces, ())
    remembered = RememberedPolicy(tool="write", arguments=arguments, replaces=before)
    assert remembered.applied_to(settings) is settings


@pytest.mark.parametrize("arguments", [None, {"path": "src/*"}])
@pytest.mark.parametrize("scopes", [(), (scope(path="docs/*"),)])
def test_nothing_is_remembered_once_the_policy_of_all_tools_has_changed(
    arguments: dict[str, str] | None, scopes: tuple[PolicyScope, ...]
) -> None:
    settings = ToolSettings(tool_scopes={"write": scopes} if scopes else {})
    before = policies_of(settings, "write")._replace(general="confirm_destructive")
    remembered = RememberedPolicy(tool="write", arguments=arguments, replaces=before)
    assert remembered.applied_to(settings) is settings


def test_a_tool_has_at_most_twenty_scopes() -> None:
    settings = ToolSettings()
    before = policies_of(settings, "write")
    for number in range(30):
        arguments = {"path": f"{number}/*"}
        remembered = RememberedPolicy(tool="write", arguments=arguments, replaces=before)
        settings = remembered.applied_to(settings)
    assert len(settings.tool_scopes["write"]) == 20


ALWAYS, DESTRUCTIVE, NEVER = "always_confirm", "confirm_destructive", "never_confirm"


def _scoped(own: str, *policies: str) -> ToolSettings:
    scopes = [PolicyScope(policy=each, arguments={"path": f"{each}/*"}) for each in policies]
    return ToolSettings(tool_policies={"t": own}, tool_scopes={"t": scopes})


@pytest.mark.parametrize(
    ("old", "new", "is_weaker"),
    [
        (ToolSettings(), ToolSettings(execution_policy=DESTRUCTIVE), True),
        (ToolSettings(execution_policy=DESTRUCTIVE), ToolSettings(), False),
        (ToolSettings(execution_policy="unheard_of"), ToolSettings(), False),
        (
            ToolSettings(execution_policy=DESTRUCTIVE),
            ToolSettings(execution_policy=DESTRUCTIVE, tools=("t",)),
            False,
        ),
        (ToolSettings(), ToolSettings(tool_policies={"t": DESTRUCTIVE}), True),
        (
            ToolSettings(execution_policy=DESTRUCTIVE, tool_policies={"t": ALWAYS}),
            ToolSettings(execution_policy=DESTRUCTIVE),
            True,
        ),
        (
            ToolSettings(execution_policy=NEVER),
            ToolSettings(execution_policy=DESTRUCTIVE, tool_policies={"t": NEVER}),
            False,
        ),
        (_scoped(ALWAYS), _scoped(ALWAYS, DESTRUCTIVE), True),
        (_scoped(DESTRUCTIVE), _scoped(DESTRUCTIVE, ALWAYS), False),
        (_scoped(DESTRUCTIVE, ALWAYS), _scoped(DESTRUCTIVE), True),
        (_scoped(ALWAYS, DESTRUCTIVE), _scoped(ALWAYS), False),
        (
            ToolSettings(execution_policy=DESTRUCTIVE, tool_policies={"t": ALWAYS}),
            ToolSettings(
                execution_policy=DESTRUCTIVE,
                tool_policies={"t": ALWAYS, "coder.t": DESTRUCTIVE},
            ),
            True,
        ),
    ],
)
def test_settings_are_weaker_if_some_call_needs_no_approval_any_more(
    old: ToolSettings, new: ToolSettings, is_weaker: bool
) -> None:
    assert relaxes(new, old) is is_weaker
    assert not relaxes(old, old)
