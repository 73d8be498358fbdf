"""Named model configurations: files, what the API may say, and what requests become."""

import json
import os

import msgspec
import pytest

from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from models_app.errors import ModelNotFound, ProfileExists, ProfileNotFound
from models_app.language_model import ModelRequest
from models_app.profile_language_model import apply_profile
from models_app.profile_parameters import ProfileParameters
from models_app.profiles import Profile, ProfileService, profile_from
from models_app.vendors.registry import KNOWN_VENDORS, make_vendor
from sessions_app.errors import ValidationFailed
from sessions_app.messages import SystemMessage, UserMessage

MINE = make_vendor("mine", base_url="http://gpu-box:8080/v1", key_variable="GPU_KEY")
HELLO = UserMessage(content="Hello", message_id="u", timestamp="t")


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "profiles"


@pytest.fixture
def profiles(directory):
    return ProfileService(directory, [*KNOWN_VENDORS, MINE])


def profile(name="work", **more):
    return profile_from(name, {"provider": "openai", "model": "gpt-5.1", **more})


def write(directory, name, value):
    directory.mkdir(exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (directory / name).write_text(text)


def test_a_profile_is_a_readable_file_of_its_own(profiles, directory):
    made = profile(system_prompt="Be brief.", parameters={"temperature": 0.5, "stop": ["END"]})

    assert profiles.create(made) == made

    path = directory / "work.json"
    assert json.loads(path.read_text()) == {
        "provider": "openai",
        "model": "gpt-5.1",
        "system_prompt": "Be brief.",
        "parameters": {"temperature": 0.5, "stop": ["END"]},
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert profiles.get("work") == made
    assert profiles.list().profiles == [made]
    assert profiles.update(profile(model="gpt-5")).model == "gpt-5"
    profiles.delete("work")
    assert profiles.list().profiles == []


def test_names_are_taken_once_and_missing_ones_are_not_found(profiles):
    profiles.create(profile())

    with pytest.raises(ProfileExists):
        profiles.create(profile())
    for act in (profiles.get, profiles.delete, lambda name: profiles.update(profile(name))):
        with pytest.raises(ProfileNotFound):
            act("other")


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".x", "a\n", "x" * 101, "ü", "a\x00"])
def test_a_hostile_name_is_refused(profiles, name):
    for act in (profiles.get, profiles.delete, lambda it: profiles.create(profile(it))):
        with pytest.raises(ValidationFailed) as raised:
            act(name)
        assert raised.value.details["field"] == "name"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"provider": "openai"}',
        '{"provider": "openai", "model": "m", "modle": 1}',
        '{"provider": "openai", "model": "m", "parameters": {"temperature": "hot"}}',
        '{"provider": "openai", "model": "m", "parameters": {"temperature": 3}}',
        '{"provider": "custom", "model": "m", "base_url": "file:///etc/passwd"}',
        '{"provider": "openai", "model": "m", "api_key_env": "sk-not a name"}',
        '{"provider": "custom", "model": "m", "base_url": "http://["}',
        '{"provider": "custom", "model": "m", "base_url": "http://\u2100.example"}',
        '{"provider": "custom", "model": "m", "base_url": "http://host:99999"}',
        '{"provider": "custom", "model": "m", "base_url": "http://a b"}',
        '{"provider": "custom", "model": "m", "base_url": "http://host\\n.example"}',
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "[" * 500_000,
    ],
    ids=range(16),
)
def test_a_broken_file_costs_that_profile_alone(profiles, content, directory):
    profiles.create(profile("good"))
    write(directory, "broken.json", content)

    listing = profiles.list()

    assert [item.name for item in listing.profiles] == ["good"]
    assert [item.file for item in listing.unreadable] == ["broken.json"]
    assert listing.unreadable[0].reason
    with pytest.raises(ProfileNotFound, match="can't be used"):
        profiles.get("broken")


def test_an_address_with_a_password_is_no_profile_and_is_not_told(profiles, directory):
    url = "http://bob:canary@gpu-box:8080/v1"
    write(directory, "mine.json", {"provider": "custom", "model": "m", "base_url": url})

    (unreadable,) = profiles.list().unreadable

    assert "api_key_env" in unreadable.reason
    assert "canary" not in unreadable.reason


def test_links_are_not_followed(profiles, tmp_path, directory):
    (tmp_path / "secret").write_text('{"provider": "openai", "model": "m"}')
    write(directory, "x.json", "{}")
    os.symlink(tmp_path / "secret", directory / "link.json")

    for act in (profiles.get, profiles.delete):
        with pytest.raises(ProfileNotFound):
            act("link")
    assert (tmp_path / "secret").exists()


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"provider": "nobody"}, "provider"),
        ({"provider": "custom"}, "provider"),
        ({"provider": "custom", "base_url": "http://169.254.169.254/v1"}, "base_url"),
        ({"base_url": "http://evil.example"}, "base_url"),
        ({"base_url": "gopher://x"}, "base_url"),
        ({"base_url": "http://["}, "base_url"),
        ({"base_url": "http://bob:secret@gpu-box:8080/v1"}, "base_url"),
        ({"provider": "ollama", "base_url": "http://x"}, "base_url"),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, "api_key_env"),
        ({"api_key_env": "GPU_KEY"}, "api_key_env"),
        ({"provider": "mine", "api_key_env": "OPENAI_API_KEY"}, "api_key_env"),
        (
            {"provider": "custom", "base_url": MINE.base_url, "api_key_env": "OPENAI_API_KEY"},
            "api_key_env",
        ),
        ({"model": " "}, "model"),
    ],
)
def test_only_addresses_and_keys_that_are_configured_together_may_come_in(profiles, more, field):
    with pytest.raises(ValidationFailed) as raised:
        profiles.create(profile(**more))

    assert raised.value.details["field"] == field


@pytest.mark.parametrize(
    "more",
    [
        {"provider": "ollama", "model": "qwen3:14b"},
        {"provider": "mine"},
        {"provider": "mine", "api_key_env": "GPU_KEY"},
        {"provider": "custom", "base_url": "http://gpu-box:8080/v1/", "api_key_env": "GPU_KEY"},
        {"provider": "custom", "base_url": MINE.base_url},
        {"provider": "google", "api_key_env": "GEMINI_API_KEY"},
    ],
)
def test_what_is_configured_together_may_come_in(profiles, more):
    profiles.create(profile(**more))


def test_what_somebody_wrote_into_the_file_may_stay_in_it(profiles, directory):
    by_hand = {
        "provider": "custom",
        "model": "m",
        "base_url": "http://lab/v1",
        "api_key_env": "LAB",
    }
    write(directory, "lab.json", by_hand)

    changed = profile_from("lab", {**by_hand, "model": "n"})

    assert profiles.update(changed).model == "n"
    with pytest.raises(ValidationFailed):
        profiles.update(profile_from("lab", {**by_hand, "base_url": "http://evil/v1"}))
    with pytest.raises(ValidationFailed):
        profiles.update(profile_from("lab", {**by_hand, "api_key_env": "HOME"}))


def test_a_profile_of_a_provider_that_is_gone_says_so(profiles, directory):
    write(directory, "old.json", {"provider": "closed", "model": "m"})

    with pytest.raises(ModelNotFound, match="'closed' of the profile 'old' is not configured"):
        profiles.vendor_of(profiles.get("old"))


@pytest.mark.parametrize(
    ("provider", "words"), [("custom", "needs a `base_url`"), ("opnai", "is not configured")]
)
def test_a_provider_that_can_not_be_asked_is_refused_with_what_to_change(profiles, provider, words):
    with pytest.raises(ValidationFailed, match=words) as raised:
        profiles.create(profile(provider=provider))

    assert raised.value.details["field"] == "provider"
    assert {"ollama", "custom", "openai", "mine"} <= set(raised.value.details["allowed"])


def test_the_profiles_parameters_are_the_requests_options():
    made = profile(
        system_prompt="Be brief.",
        parameters={"temperature": 0.5, "max_tokens": 100, "thinking": True, "context_limit": 4096},
    )
    request = ModelRequest(model="work", messages=[HELLO], options={"temperature": 0.1})

    sent = apply_profile(made, request)

    assert sent.model == "gpt-5.1"
    assert sent.options == {"temperature": 0.1, "max_tokens": 100, "thinking_budget": 10_000}
    assert sent.think is True
    assert [message.content for message in sent.messages] == ["Be brief.", "Hello"]


def test_what_the_session_says_wins():
    system = SystemMessage(content="The session's.", message_id="s", timestamp="t")
    made = profile(system_prompt="The profile's.", parameters={"thinking": "high"})

    sent = apply_profile(made, ModelRequest(model="work", messages=[system, HELLO], think=False))

    assert [message.content for message in sent.messages] == ["The session's.", "Hello"]
    assert sent.think is False
    assert sent.options == {}


def test_a_record_of_what_is_not_sent_does_not_take_the_prompts_place():
    record = SystemMessage(content="They talked.", message_id="", timestamp="t")
    made = profile(system_prompt="Be brief.")
    asked = ModelRequest(model="work", messages=[record, HELLO])

    sent = apply_profile(made, asked)
    assert [message.content for message in sent.messages] == ["Be brief.\n\nThey talked.", "Hello"]

    about = msgspec.structs.replace(asked, purpose="summary")
    assert apply_profile(made, about).messages == [record, HELLO]


def test_every_parameter_is_one_of_the_options():
    fields = set(ProfileParameters.__struct_fields__) - {"thinking", "context_limit"}
    values = {
        "temperature": 1.0,
        "max_tokens": 1,
        "top_p": 1.0,
        "top_k": 1,
        "seed": 1,
        "stop": ["a"],
        "presence_penalty": 1.0,
        "frequency_penalty": 1.0,
        "thinking_budget": 1,
        "reasoning_effort": "low",
        "cache": "1h",
        "verbosity": "low",
        "service_tier": "flex",
        "keep_alive": "30m",
    }
    assert fields == values.keys()
    assert ProfileParameters(**values).options() == values


@pytest.mark.parametrize("cache", ["2h", True, ""])
def test_a_profiles_cache_is_one_of_three(cache):
    with pytest.raises(ValidationFailed):
        profile_from("a", {"provider": "x", "model": "m", "parameters": {"cache": cache}})


def test_a_profile_may_say_how_long_its_model_stays_loaded():
    made = profile(parameters={"keep_alive": "30m"})
    assert made.parameters.options() == {"keep_alive": "30m"}
    for value in ("30", True, []):
        with pytest.raises(ValidationFailed, match="keep_alive must be seconds, or a duration"):
            profile(parameters={"keep_alive": value})


def test_a_profile_value_can_not_be_changed():
    made = Profile(name="a", provider="ollama", model="m")

    with pytest.raises(AttributeError):
        made.model = "n"


def test_a_whole_number_is_one_however_it_is_written():
    profile = profile_from("a", {"provider": "openai", "model": "m", "parameters": {"top_k": 5.0}})
    assert profile.parameters.top_k == 5
    with pytest.raises(ValidationFailed):
        profile_from("a", {"provider": "openai", "model": "m", "parameters": {"top_k": 5.5}})


def test_null_is_the_same_as_parameters_that_were_left_out():
    assert profile("x", parameters=None) == profile("x")


def test_a_profile_may_choose_the_api_of_openai(profiles, directory):
    profiles.create(profile(api="chat"))
    profiles.create(profile("mine", provider="mine", model="qwen3", api="responses"))

    assert json.loads((directory / "work.json").read_text())["api"] == "chat"
    assert not profiles.vendor_of(profiles.get("work")).uses_responses("gpt-5.6-terra")
    assert profiles.vendor_of(profiles.get("mine")).uses_responses("qwen3")
    # It is no address or key of its own.
    assert profiles.is_configured(profiles.get("mine"))


def test_a_profile_without_an_api_has_the_configured_one(directory):
    configured = make_vendor("openai", base_url=None, key_variable=None, api="chat")
    service = ProfileService(directory, [configured])

    assert not service.vendor_of(profile()).uses_responses("gpt-5.6-terra")
    assert service.vendor_of(profile(api="auto")).uses_responses("gpt-5.6-terra")


@pytest.mark.parametrize(
    "more",
    [
        {"api": "completions"},
        {"provider": "ollama", "model": "qwen3", "api": "chat"},
        {"provider": "anthropic", "model": "claude-haiku-4-5", "api": "responses"},
    ],
)
def test_an_api_that_its_provider_lacks_is_refused(profiles, more):
    with pytest.raises(ValidationFailed) as raised:
        profiles.create(profile(**more))

    assert raised.value.details["field"] == "api"


@pytest.mark.parametrize("level", ["minimal", "low", "medium", "high", "xhigh", "max"])
def test_a_profile_may_think_with_any_effort(level):
    assert profile(parameters={"thinking": level}).parameters.thinking == level
