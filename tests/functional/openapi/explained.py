"""Schemathesis's hooks: the answers that its checks find wrong and that are right.

Schemathesis loads them (``SCHEMATHESIS_HOOKS``) in a process of its own. Each check here is one of
Schemathesis's that passes what is explained.
"""

import json
import os
import re
from typing import Any

import schemathesis
from schemathesis.specs.openapi import checks

# Refusals that no schema can say because they depend on what there is: code, words, why.
REFUSALS = [
    (
        "VALIDATION_ERROR",
        r"nothing new to answer|[Tt]he thread|Answers come alone|that the client runs|editedArgs",
        "what the thread holds and waits for",
    ),
    (
        "VALIDATION_ERROR",
        r"A role is one of|A (text|part|source) is|list of parts|(Parts|Sources) are|tool's name",
        "messages of AG-UI are described by its own schema",
    ),
    (
        "VALIDATION_ERROR",
        r"Invalid value for '(model|think|selectedTools)",
        "forwardedProps may be anything, but for the few that mean something",
    ),
    ("INVALID_MESSAGE_INDEX", r"", "whether the session has that message, and who wrote it"),
    (
        "VALIDATION_ERROR",
        r"'to' is before 'from'|is not a day",
        "which days there are",
    ),
    ("AGENT_INVALID", r"", "whether the agent's folder is in order"),
    ("VALIDATION_ERROR", r"Idempotency-Key was used for another", "which keys were used before"),
    ("VALIDATION_ERROR", r"nothing to continue from: send a message", "what the session holds"),
    ("VALIDATION_ERROR", r"The file holds no conversations", "what is in a file"),
    ("VALIDATION_ERROR", r"has no answer yet", "what the session holds"),
    ("VALIDATION_ERROR", r"not found; ", "which models there are"),
    ("VALIDATION_ERROR", r"keep_alive must be", "durations are more than a pattern can say"),
    ("VALIDATION_ERROR", r"is at most \d+ tokens for this model", "what the model can hold"),
    ("VALIDATION_ERROR", r"is answered by '.*', not by", "which model the session has"),
    ("VALIDATION_ERROR", r"is not an option of Ollama", "whose model the session has"),
    (
        "VALIDATION_ERROR",
        r"can't think|can't call tools|does not support thinking",
        "what the model can do",
    ),
    ("VALIDATION_ERROR", r"has one API: leave out", "which provider the profile names"),
    ("VALIDATION_ERROR", r"name can't be changed", "the profile that the path names"),
    ("VALIDATION_ERROR", r"must be configured|is configured for its address", "the configuration"),
    ("VALIDATION_ERROR", r"provider '.*' .*is not configured", "the configuration"),
    ("VALIDATION_ERROR", r"Ollama is at MOCHI_OLLAMA_HOST", "which provider the profile names"),
    ("VALIDATION_ERROR", r"A base URL", "what an address may hold is more than a pattern can say"),
    (
        "VALIDATION_ERROR",
        r"old form of|One answer is given|Probabilities of tokens|Answers are text|of the type '",
        "what OpenAI has and this server does not is refused with a sentence that says so",
    ),
    (
        "VALIDATION_ERROR",
        r"role 'tool' must|two results|Two calls have|Two tools have|expected a string, got null",
        "which messages and tools belong together",
    ),
    ("VALIDATION_ERROR", r"No tool call found", "which calls wait for an output"),
    ("MISSING_TOOL_RESULT", r"No tool output found", "which messages belong together"),
    (
        "VALIDATION_ERROR",
        r"tool_choice|no function '.*' in 'tools'|Supported values are",
        "which tools there are to choose from",
    ),
    (
        "VALIDATION_ERROR",
        r"form of the answer and tools|parameter: '(tools|response_format|messages)",
        "fields that need each other",
    ),
    (
        "VALIDATION_ERROR",
        r"send session_id, too|message_id or message_index",
        "fields that need each other, or exclude each other",
    ),
    (
        "VALIDATION_ERROR",
        r"Prompts that OpenAI keeps|only MCP server|offered once|'always' and|names of tools",
        "what OpenAI has and this server does not is refused with a sentence that says so",
    ),
    (
        "VALIDATION_ERROR",
        r"can't be used together|There is nothing to answer|parameter: '(input|model|tools|text)",
        "fields that need each other, or exclude each other",
    ),
    ("VALIDATION_ERROR", r"response_format\.schema", "what makes a schema, and where it belongs"),
    (
        "VALIDATION_ERROR",
        r"(parameter: |type for )'items\[|[Cc]ontent part|can't be taken here|list of objects",
        "items of conversations are described by OpenAI's schema",
    ),
    ("PREVIOUS_RESPONSE_NOT_FOUND", r"", "which responses there are"),
    ("VALIDATION_ERROR", r"'metadata'", "labels are read only where they are kept"),
    (
        "VALIDATION_ERROR",
        r"not base64|A data URL|(attachment|file) is|image declares|The form|not a form|one file",
        "what bytes are is more than a schema can say",
    ),
    ("VALIDATION_ERROR", r"takes no |may have \d+ attachments", "the model, and the configuration"),
    ("VALIDATION_ERROR", r"content must not be blank", "whether something is attached"),
    ("VALIDATION_ERROR", r"next_cursor of a page", "which pages there were"),
    ("VALIDATION_ERROR", r"must be a date or a time", "a parameter may be one or the other"),
    ("VALIDATION_ERROR", r"bytes of JSON; this has", "the bytes of an object"),
    (
        "VALIDATION_ERROR",
        r"the last one as `message`|neither a|has to be one of the user|A part needs",
        "parts",
    ),
    ("VALIDATION_ERROR", r"A file is a data URL|Name a `model`", "what is there"),
    (
        "VALIDATION_ERROR",
        r"A new session needs a message|neither text of a user|There is nothing to compact",
        "a session, or something that is said",
    ),
    ("VALIDATION_ERROR", r"Nothing follows the last message", "what the session has already"),
    (
        "VALIDATION_ERROR",
        r"MCP servers of its own|is not available on this server|The name of a tool has|no threads",
        "what Anthropic has and this server does not is refused with a sentence that says so",
    ),
    (
        "VALIDATION_ERROR",
        r"(parameter: |type for )'(system|messages)[\[.]|There is no (tool|model) '|has no call",
        "blocks of messages are of more kinds than a schema here says",
    ),
]
_OF_NO_OPERATION = {"NOT_FOUND", "METHOD_NOT_ALLOWED"}  # paths that lead nowhere
_OF_BODIES = {"ITEM_NOT_FOUND", "ATTACHMENT_NOT_FOUND"}
# Messages quote what was sent, newlines too.
_EXPLAINED = [(code, re.compile(words, re.DOTALL)) for code, words, _ in REFUSALS]


def _error_of(response: Any) -> tuple[str, str]:
    """Return code and message of an error, which is a sentence for the AI SDK."""
    if code := response.headers.get("x-mochi-error"):
        return code[0] if isinstance(code, list) else code, response.content.decode()
    error = json.loads(response.content)["error"]
    return error.get("mochi_code") or error["code"], error["message"]


@schemathesis.check
def valid_requests_are_accepted(ctx: Any, response: Any, case: Any) -> bool | None:
    """Do ``positive_data_acceptance``, but for refusals that are explained."""
    if response.status_code in {400, 422}:
        ours, said = _error_of(response)
        if any(ours == code and words.search(said) for code, words in _EXPLAINED):
            return None
    return checks.positive_data_acceptance(ctx, response, case)


@schemathesis.check
def what_was_made_is_there(ctx: Any, response: Any, case: Any) -> bool | None:
    """Do ``ensure_resource_availability``, but where what the body refers to is missing.

    Only a tool that asks makes an approval, and items and attachments are named by chance.
    """
    if case.operation.label.endswith("/confirm-tool"):
        return None
    if response.status_code == 404 and _error_of(response)[0] in _OF_BODIES:
        return None
    return checks.ensure_resource_availability(ctx, response, case)


@schemathesis.check
def allowed_methods_are_described(ctx: Any, response: Any, case: Any) -> bool | None:
    """Do ``allow_header_conformance``, but where GET is there to refuse WebSockets only."""
    if case.operation.path == "/v1/responses":
        return None
    return checks.allow_header_conformance(ctx, response, case)


def errors_have_a_code_of_the_operation(ctx: Any, response: Any, case: Any) -> bool | None:
    """Look whether the document says of the operation that it answers this code."""
    if response.status_code < 400:
        return None
    code, _ = _error_of(response)
    declared = case.operation.definition.raw["x-error-codes"].get(str(response.status_code))
    if declared is None or code in {*declared, *_OF_NO_OPERATION}:
        return None
    raise AssertionError(f"{response.status_code} {code} is none of {declared}")


if os.environ.get("MOCHI_E2E_SCHEMATHESIS_CODES"):  # by hand: codes are met by chance
    schemathesis.check(errors_have_a_code_of_the_operation)
