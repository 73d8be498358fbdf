"""MCP's conformance suite plays a server to our MCP client: one test for each scenario.

``client.py`` beside this file drives the client, and says how to play one scenario by hand.
"""

import os
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import ROOT
from tests.functional.mcp_conformance.conftest import Suite

pytestmark = pytest.mark.interop

CLIENT = Path(__file__).with_name("client.py")
OLDER, NEWER = "2025-11-25", "2026-07-28"

NOT_OFFERED = {
    "auth/client-credentials-jwt": "credentials are secrets; no keys that sign",
    "auth/dpop*": "proofs of possession are not offered",
    "auth/enterprise-managed-authorization": "identity providers' tokens are not exchanged",
    "auth/wif-jwt-bearer": "workloads' tokens are not exchanged",
    "auth/2025-03-26-*": "the version of 2025-03-26 is not tested: its successor is in use",
    "sep-2640-*": "skills are not offered",
    "json-schema-2020-12-preservation": "models get schemas with their references inlined",
}
"""What does not apply, by patterns of scenarios, with the reason."""


def reason_not_to_play(scenario: str) -> str | None:
    reasons = (NOT_OFFERED[pattern] for pattern in NOT_OFFERED if fnmatch(scenario, pattern))
    return next(reasons, None)


BOTH = [
    "tools_call",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
]
ONLY_OLDER = ["initialize", "elicitation-sep1034-client-defaults", "sse-retry"]
ONLY_NEWER = [
    "request-metadata",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
]
EXTENSION = ["auth/client-credentials-basic"]
PLAYS = [
    *((scenario, version) for scenario in BOTH for version in (OLDER, NEWER)),
    *((scenario, OLDER) for scenario in ONLY_OLDER),
    *((scenario, NEWER) for scenario in ONLY_NEWER),
    *((scenario, None) for scenario in EXTENSION),
]


@pytest.mark.parametrize(
    ("scenario", "version"),
    [
        pytest.param(
            *play,
            id="-".join(filter(None, play)),
            marks=[pytest.mark.skip(reason)] if (reason := reason_not_to_play(play[0])) else [],
        )
        for play in PLAYS
    ],
)
def test_a_scenario_of_the_suite(
    suite: Suite, server: Any, scenario: str, version: str | None
) -> None:
    command = f"{sys.executable} {CLIENT} {server.url} {server.data_dir}"

    checks = suite.play(
        "client", scenario, version, "--command", command, PYTHONPATH=os.fspath(ROOT)
    )

    assert checks, "nothing was checked"
    assert [check for check in checks if check["status"] == "FAILURE"] == []


def test_every_scenario_of_the_suite_is_played_or_has_a_reason(suite: Suite) -> None:
    listed = suite.scenarios("client")

    played = {scenario for scenario, _ in PLAYS}
    assert {s for s in listed - played if reason_not_to_play(s) is None} == set()
    assert played - listed == set()
