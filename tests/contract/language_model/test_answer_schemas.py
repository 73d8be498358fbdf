"""An answer of a form, from vendors and servers that take a schema, and from those that do not."""

import pytest

from models_app.errors import ServiceUnavailable
from models_app.language_model import ANY_OBJECT, Finished, Warned
from scripted_app.server import ScriptedModelServer
from tests.contract.language_model.cases import (
    OPENAI,
    OPENROUTER,
    Opener,
    ask,
    block,
    says,
    text_of,
)

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
takers = pytest.mark.parametrize("provider", [OPENAI, OPENROUTER], ids=lambda each: each.name)


async def answer(model, provider, said=None):
    message = said or block(says("Named."))
    return await ask(model, provider, message, name=provider.plain, answer_schema=FORM)


def forms(scripted: ScriptedModelServer) -> list[bool]:
    """Return which requests asked for a form."""
    return ["response_format" in body for body in scripted.requests]


@takers
async def test_a_schema_is_sent_where_it_is_taken(provider, open_model: Opener, scripted):
    deltas = await answer(open_model(provider), provider)
    assert forms(scripted) == [True]
    assert not any(isinstance(delta, Warned) for delta in deltas)


@takers
async def test_a_refused_schema_is_left_out_and_told(provider, open_model: Opener, scripted):
    scripted.refuses_schemas = True
    model = open_model(provider)

    deltas = await answer(model, provider)

    assert isinstance(deltas[0], Warned)
    assert provider.plain in deltas[0].message
    assert text_of(deltas) == "Named."
    assert isinstance(deltas[-1], Finished)
    assert forms(scripted) == [True, False]
    # It is not tried with every request.
    assert isinstance((await answer(model, provider))[0], Warned)
    assert forms(scripted) == [True, False, False]


async def test_a_request_that_is_refused_for_another_reason_is_no_refusal_of_schemas(
    open_model: Opener, scripted
):
    model = open_model(OPENAI)
    scripted.refuses_schemas = True
    with pytest.raises(ServiceUnavailable):
        await answer(model, OPENAI, block(status=400))
    assert forms(scripted) == [True, False]
    scripted.refuses_schemas = False
    scripted.requests.clear()
    await answer(model, OPENAI)
    assert forms(scripted) == [True]


async def test_a_refusal_without_a_schema_is_final(open_model: Opener, scripted):
    with pytest.raises(ServiceUnavailable):
        await ask(open_model(OPENAI), OPENAI, block(status=400), answer_schema=ANY_OBJECT)
    assert forms(scripted) == [False]
