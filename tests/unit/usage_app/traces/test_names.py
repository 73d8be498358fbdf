"""Attributes are named as the asked-for version of the conventions names them."""

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from usage_app.traces import names
from usage_app.traces.names import ATTRIBUTES, Naming, provider_name


def test_every_name_of_generative_ai_is_one_of_the_conventions():
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {
        name
        for each in ATTRIBUTES
        for name in (each.name, *each.former)
        if name.startswith("gen_ai.")
    }

    assert used
    assert used <= known


def test_no_name_is_used_twice():
    assert len({each.name for each in ATTRIBUTES}) == len(ATTRIBUTES)


def test_former_names_are_used_unless_the_newest_are_asked_for():
    values = {names.PROVIDER: "ollama", names.REQUEST_MODEL: "m"}

    assert Naming(latest=False).attributes(values) == {
        "gen_ai.system": "ollama",
        "gen_ai.provider.name": "ollama",
        "gen_ai.request.model": "m",
    }
    assert Naming(latest=True).attributes(values) == {
        "gen_ai.provider.name": "ollama",
        "gen_ai.request.model": "m",
    }


def test_what_is_not_known_is_left_out_and_what_is_no_unicode_is_mended():
    values = {names.AGENT: None, names.TOOL_NAME: "a\ud83d", names.ROUNDS: 0}

    assert Naming(latest=True).attributes(values) == {
        "gen_ai.tool.name": "a\ufffd",
        "mochi.turn.rounds": 0,
    }


def test_providers_have_the_names_of_the_conventions():
    assert [provider_name(name) for name in ("openai", "google", "mine")] == [
        "openai",
        "gcp.gemini",
        "mine",
    ]
