"""Profiles as models, and over HTTP."""

import json

import pytest
from django.test import AsyncClient

from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound, ProfileNotFound
from models_app.language_model import ModelRequest
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.profiles import ProfileService
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import make_vendor
from sessions_app.messages import UserMessage
from sessions_app.store.file_records import FileRecords
from tests.services import OneOwner, services_of

URL = "/api/v1/profiles"
HELLO = UserMessage(content="Hello", message_id="u", timestamp="t")


@pytest.fixture
async def catalogue(scripted, tmp_path):
    vendors = [make_vendor("anthropic", base_url=scripted.url, key_variable=None)]
    vendors.append(make_vendor("mine", base_url=f"{scripted.url}/v1", key_variable=None))
    profiles = ProfileService(tmp_path / "profiles", vendors)
    catalogue = ModelCatalogue(
        OllamaLanguageModel(scripted.url),
        [VendorLanguageModel(vendor) for vendor in vendors],
        profiles=profiles,
    )
    yield catalogue
    await catalogue.aclose()


@pytest.fixture
def client(catalogue, monkeypatch):
    monkeypatch.setattr(
        "mochi_project.app._pool", OneOwner(services_of({ModelCatalogue: catalogue}))
    )
    return AsyncClient()


async def text_of(catalogue, name, **request):
    model, bare = catalogue.resolve(name)
    thinking, text = "", ""
    async for batch in model.stream(ModelRequest(model=bare, messages=[HELLO], **request)):
        for delta in batch:
            match type(delta).__name__:
                case "TextDelta":
                    text += delta.text
                case "ThinkingDelta":
                    thinking += delta.text
    return text, thinking


@pytest.mark.parametrize(
    ("provider", "model"),
    [("ollama", "qwen3:14b"), ("anthropic", "claude-haiku-4-5"), ("mine", "gpt-5.1")],
)
async def test_a_profile_is_a_model(client, catalogue, scripted, provider, model):
    body = {
        "name": "work",
        "provider": provider,
        "model": model,
        "system_prompt": "Be brief.",
        "parameters": {"seed": 7, "max_tokens": 5500, "thinking": True, "context_limit": 1000},
    }
    created = await client.post(URL, body, content_type="application/json")
    assert created.status_code == 201, created.json()

    info = await catalogue.get("profile:work")
    text, thinking = await text_of(catalogue, "profile:work")

    assert info.name == "profile:work"
    assert (info.provider, info.default_think, info.context_limit) == (provider, True, 1000)
    assert recalled(catalogue, "profile:work") == info
    assert text.endswith("Hello")
    assert thinking
    sent = json.dumps(scripted.requests[-1])
    assert "Be brief." in sent
    assert model in sent or provider == "anthropic"


def recalled(catalogue, name):
    """Return what is known of a model without asking, as a turn finds out."""
    model, bare_name = catalogue.resolve(name)
    return model.recall(bare_name)


async def test_a_change_counts_at_once(client, catalogue, scripted):
    body = {"provider": "mine", "model": "gpt-5.1", "parameters": {"seed": 1}}
    await client.post(URL, {"name": "work", **body}, content_type="application/json")
    await text_of(catalogue, "profile:work")
    assert scripted.requests[-1]["seed"] == 1
    await catalogue.get("profile:work")

    changed = {**body, "parameters": {"seed": 2, "context_limit": 500}}
    answer = await client.put(f"{URL}/work", changed, content_type="application/json")

    assert answer.status_code == 200
    assert answer.json()["parameters"]["seed"] == 2
    assert recalled(catalogue, "profile:work") is None
    await text_of(catalogue, "profile:work")
    assert scripted.requests[-1]["seed"] == 2
    assert (await client.delete(f"{URL}/work")).status_code == 204
    with pytest.raises(ProfileNotFound):
        await catalogue.look_up("profile:work")


async def test_the_routes_answer_with_whole_profiles_and_our_envelope(client):
    body = {"name": "work", "provider": "mine", "model": "m"}
    created = await client.post(URL, body, content_type="application/json")
    assert created.json()["parameters"]["temperature"] is None
    assert (await client.get(f"{URL}/work")).json() == created.json()
    assert (await client.get(URL)).json() == {"profiles": [created.json()], "unreadable": []}
    again = await client.post(URL, body, content_type="application/json")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "PROFILE_EXISTS")
    missing = await client.get(f"{URL}/none")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "PROFILE_NOT_FOUND")


async def test_a_profile_of_a_model_that_is_not_there_is_refused(client, scripted):
    body = {"provider": "ollama", "model": "nada"}
    there = {**body, "model": "qwen3:14b", "name": "old"}
    assert (await client.post(URL, there, content_type="application/json")).status_code == 201
    for answer in (
        await client.post(URL, {**body, "name": "new"}, content_type="application/json"),
        await client.put(f"{URL}/old", body, content_type="application/json"),
    ):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (404, "MODEL_NOT_FOUND")
        assert error["details"]["field"] == "model"
    [kept] = (await client.get(URL)).json()["profiles"]
    assert kept["model"] == "qwen3:14b"

    missing = await client.put(f"{URL}/none", body, content_type="application/json")
    assert missing.json()["error"]["code"] == "PROFILE_NOT_FOUND"

    await scripted.stop()
    unreachable = await client.post(URL, {**body, "name": "new"}, content_type="application/json")
    assert unreachable.status_code == 201


async def test_what_was_read_can_be_sent_back_changed_but_for_its_name(client):
    body = {"name": "work", "provider": "mine", "model": "m"}
    created = (await client.post(URL, body, content_type="application/json")).json()

    changed = {**created, "model": "n"}
    answer = await client.put(f"{URL}/work", changed, content_type="application/json")
    assert (answer.status_code, answer.json()) == (200, changed)

    renamed = {**created, "name": "play"}
    answer = await client.put(f"{URL}/work", renamed, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["details"]["field"]) == (422, "name")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"parameters": {"temperature": "hot"}}, "parameters.temperature"),
        ({"parameters": {"tempreature": 1}}, "parameters"),
        ({"parameters": {"stop": "END"}}, "parameters.stop"),
        ({"parameters": {"thinking": "enormously"}}, "parameters.thinking"),
        ({"base_url": "http://evil.example"}, "base_url"),
        ({"modle": "x"}, None),
    ],
)
async def test_a_wrong_value_is_named(client, more, field):
    body = {"name": "work", "provider": "mine", "model": "m", **more}

    answer = await client.post(URL, body, content_type="application/json")

    assert answer.status_code == 422, answer.json()
    error = answer.json()["error"]
    assert error["code"] == "VALIDATION_ERROR"
    if field:
        assert error["details"]["field"] == field


async def test_a_profile_that_is_not_there_is_no_model(catalogue):
    with pytest.raises(ProfileNotFound) as raised:
        await catalogue.look_up("profile:none")

    assert raised.value.code == "PROFILE_NOT_FOUND"


@pytest.fixture(params=[{"base_url": "http://x.example/v1"}, {"api_key_env": "KEY"}])
def annas(request, tmp_path):
    """Return the profiles of an owner; one, and a shared one, name something of their own."""
    free = {"provider": "mine", "model": "gpt-5.1", **request.param}
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "shared.json").write_text(json.dumps(free))
    own = FileRecords(tmp_path / "own", limit=10_000)
    own.put("hers.json", json.dumps(free).encode())
    own.put("plain.json", json.dumps({"provider": "mine", "model": "gpt-5.1"}).encode())
    return own


async def test_a_profile_of_an_owner_names_only_what_is_configured(annas, catalogue):
    of_anna = catalogue.with_profiles(annas)

    assert (await text_of(of_anna, "profile:plain"))[0]
    with pytest.raises(ModelNotFound, match="may name those that are configured"):
        await text_of(of_anna, "profile:hers")
    with pytest.raises(ProfileNotFound):
        await text_of(catalogue, "profile:plain")


def test_an_owner_has_the_shared_profiles_and_his_own(annas, tmp_path):
    of_anna = ProfileService(tmp_path / "profiles").laid_over(annas)

    assert [each.name for each in of_anna.list().profiles] == ["hers", "plain", "shared"]
    assert not of_anna.is_laid_over("shared")
    assert of_anna.is_laid_over("hers")
