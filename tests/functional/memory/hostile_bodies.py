"""Makes requests in which one field is filled with whatever costs a server most.

The fields are those of the OpenAPI document, and those of ``SAMPLES``: messages of protocols that
the document leaves open.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LARGE = (1 << 20) - 4096  # the largest body has a mebibyte, and the other fields need room
ATTACHMENT = "sha256:" + "0" * 64
_HOLE = "there comes the filling"
_DEEPEST = 7

Put = Callable[[Any], Any]

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
}
_THREAD = {"threadId": "hostile", "runId": "r1", "forwardedProps": {"model": "qwen3:14b"}}
_ITEMS: list[dict[str, Any]] = [
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Hello!"},
            {"type": "input_image", "image_url": ATTACHMENT},
            {"type": "input_file", "file_data": "SGVsbG8h", "filename": "a.txt"},
        ],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "So."}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Rome"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "Sunny."},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [{"type": "input_text", "text": ""}],
    },
    {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "weather",
        "server_label": "mochi",
        "arguments": "{}",
        "output": "Sunny.",
        "error": None,
    },
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "item_reference", "id": "msg_1"},
]
SAMPLES: Mapping[str, list[dict[str, Any]]] = {
    "POST /api/v1/agui": [
        {**_THREAD, "messages": [message]}
        for message in (
            {"id": "m1", "role": "user", "content": "Hello!"},
            {
                "id": "m1",
                "role": "user",
                "content": [
                    {"type": "text", "text": "Hello!"},
                    {
                        "type": "image",
                        "source": {"type": "url", "value": "https://example.org/a.png"},
                        "metadata": {"name": "a.png"},
                    },
                    {
                        "type": "binary",
                        "mimeType": "image/png",
                        "data": "SGVsbG8h",
                        "filename": "a",
                    },
                ],
            },
            {"id": "m1", "role": "assistant", "content": "Hi.", "toolCalls": [_CALL]},
            {
                "id": "m1",
                "role": "tool",
                "toolCallId": "call_1",
                "content": "Sunny.",
                "error": "no",
            },
            {"id": "m1", "role": "system", "content": "Be brief."},
            {"id": "m1", "role": "activity", "activityType": "PLAN", "content": {"a": 1}},
        )
    ]
    + [
        {
            "threadId": "hostile",
            "runId": "r1",
            "messages": [{"id": "m1", "role": "user", "content": "Hello!"}],
            "tools": [{"name": "weather", "description": "Tells.", "parameters": SCHEMA}],
            "context": [{"description": "a", "value": "b"}],
            "forwardedProps": {"model": "qwen3:14b", "think": True, "selectedTools": ["a"]},
            "resume": [
                {
                    "interruptId": "i",
                    "status": "resolved",
                    "payload": {"approved": True, "editedArgs": {}},
                }
            ],
        }
    ],
    "POST /api/v1/ui/chat": [
        {
            "id": "hostile",
            "model": "qwen3:14b",
            "messages": [
                {
                    "id": "m1",
                    "role": "user",
                    "parts": [
                        {"type": "text", "text": "Hello!"},
                        {
                            "type": "file",
                            "url": ATTACHMENT,
                            "filename": "a.png",
                            "mediaType": "image/png",
                        },
                    ],
                }
            ],
        },
        {
            "id": "hostile",
            "model": "qwen3:14b",
            "messages": [
                {
                    "id": "m2",
                    "role": "assistant",
                    "parts": [
                        {
                            "type": "tool-weather",
                            "toolCallId": "c1",
                            "state": "approval-responded",
                            "input": {"city": "Rome"},
                            "approval": {"id": "a1", "approved": True},
                        }
                    ],
                }
            ],
        },
    ],
    "POST /v1/responses": [{"model": "qwen3:14b", "store": False, "input": _ITEMS}]
    + [{"model": "qwen3:14b", "store": False, "input": [item]} for item in _ITEMS],
    "POST /v1/conversations": [{"items": _ITEMS[:1]}, {"items": _ITEMS[1:2]}],
    "POST /v1/chat/completions": [
        {
            "model": "qwen3:14b",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Hello!"},
                        {"type": "image_url", "image_url": {"url": ATTACHMENT}},
                        {"type": "file", "file": {"file_data": "SGVsbG8h", "filename": "a.txt"}},
                    ],
                },
                {"role": "assistant", "content": "Hm.", "tool_calls": [_CALL]},
                {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "weather", "description": "Tells.", "parameters": SCHEMA},
                }
            ],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "weather"}}],
                },
            },
        }
    ],
}

WRONG: Mapping[str, str] = {
    "null": "null",
    "true": "true",
    "number": "3",
    "fraction": "-0.5",
    "huge number": "1" + "0" * 40,
    "text": '"x"',
    "blank text": '" "',
    "list": "[]",
    "list of null": "[null]",
    "list of lists": "[[]]",
    "list of objects": "[{}]",
    "object": "{}",
    "object of null": '{"a":null}',
}
"""Values of every type, one of which nearly every field refuses."""


def large(size: int, item: str | None = None) -> Mapping[str, str]:
    """Return values of about so many bytes, each costly in its own way.

    Args:
        size: The bytes.
        item: A valid item of the field, if it is a list.
    """
    count = size // 12
    escaped = '\\"'
    fillings = {
        "numbers": _many("1", size),
        "texts": _many('"a"', size),
        "nulls": _many("null", size),
        "lists": _many("[]", size),
        "objects": _many("{}", size),
        "objects of one": _many('{"a":1}', size),
        "names": "{" + ",".join(f'"k{number:07}":1' for number in range(count)) + "}",
        "one text": f'"{"a" * size}"',
        "escapes": f'"{escaped * (size // 2)}"',
        "depth": "[" * (size // 2) + "]" * (size // 2),
        "lists in lists": "[" * 50 + _many("[]", size) + "]" * 50,
        "JSON": '"' + _many("1", size) + '"',
        "JSON of lists": '"' + _many("[]", size) + '"',
        "JSON of an object": '"{' + escaped + "a" + escaped + ":" + _many("{}", size) + '}"',
        "different texts": "[" + ",".join(f'"k{number:07}"' for number in range(count)) + "]",
    }
    if item is not None:
        fillings["valid items"] = _many(item, size)
    return fillings


def _many(item: str, size: int) -> str:
    return "[" + f"{item}," * (size // (len(item) + 1)) + f"{item}]"


@dataclass(frozen=True)
class Field:
    """One field of a request's body.

    Attributes:
        operation: The method and the path.
        name: The path of the field in the body.
        item: A valid item as JSON, if it is a list.
    """

    operation: str
    name: str
    put: Put
    item: str | None = None

    def body(self, filling: str) -> bytes:
        """Return the body with a filling, which is JSON, in place of the field's value."""
        return json.dumps(self.put(_HOLE)).replace(json.dumps(_HOLE), filling).encode()


def fields(document: Mapping[str, Any]) -> Iterator[Field]:
    """Return every field of every body, the body itself first."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            name = f"{method.upper()} {path}"
            walk = _Walk(document["components"]["schemas"], name)
            schema = content["schema"]
            example = content.get("example", walk.instance(schema))
            declared = walk.by_schema(schema, example, _itself, "")
            yield from {field.name: field for field in declared}.values()
            for sample in SAMPLES.get(name, ()):
                yield from walk.by_value(sample, _itself, "")


class _Walk:
    def __init__(self, components: Mapping[str, Any], operation: str) -> None:
        self._components = components
        self._operation = operation

    def by_schema(
        self, schema: Any, value: Any, put: Put, name: str, depth: int = 0
    ) -> Iterator[Field]:
        """Return the fields that a schema declares, beginning with the place of the value."""
        items = [each["items"] for each in self._branches(schema) if "items" in each]
        item = json.dumps(self.instance(items[0])) if items else None
        yield Field(self._operation, name, put, item)
        if depth == _DEEPEST:
            return
        for branch in self._branches(schema):
            if "items" in branch:
                inner = self.instance(branch["items"])
                yield from self.by_schema(
                    branch["items"], inner, lambda put_in: put([put_in]), f"{name}[0]", depth + 1
                )
            known = branch.get("properties", {})
            more = branch.get("additionalProperties")
            whole = value if isinstance(value, dict) else self.instance(branch)
            for key, inner_schema in {**known, **({"x": more} if more else {})}.items():
                inner = (whole or {}).get(key, self.instance(inner_schema))
                yield from self.by_schema(
                    inner_schema, inner, _putting(put, whole, key), f"{name}.{key}", depth + 1
                )

    def by_value(self, value: Any, put: Put, name: str) -> Iterator[Field]:
        """Return the fields of a body."""
        yield Field(self._operation, name, put, json.dumps(value[0]) if _is_list(value) else None)
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from self.by_value(inner, _putting(put, value, key), f"{name}.{key}")
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                yield from self.by_value(inner, _putting(put, value, index), f"{name}[{index}]")

    def instance(self, schema: Any) -> Any:
        """Return a value that fits a schema, if that is easily found."""
        schema = self._resolved(schema)
        for key in ("example", "const", "default"):
            if key in schema:
                return schema[key]
        if "examples" in schema:
            return schema["examples"][0]
        if "enum" in schema:
            return schema["enum"][0]
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches and "properties" not in schema:
            return self.instance(branches[0])
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object" or "properties" in schema:
            known = schema.get("properties", {})
            return {key: self.instance(known.get(key, {})) for key in schema.get("required", ())}
        simple = {"string": "a", "integer": 1, "number": 1, "boolean": False, "array": []}
        return simple.get(kind or "")

    def _branches(self, schema: Any) -> Iterator[Mapping[str, Any]]:
        schema = self._resolved(schema)
        yield schema
        for key in ("anyOf", "oneOf"):
            for branch in schema.get(key, ()):
                yield from self._branches(branch)

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        if not isinstance(schema, dict):
            return {}
        while "$ref" in schema:
            schema = self._components[schema["$ref"].rpartition("/")[2]]
        return schema


def _itself(value: Any) -> Any:
    return value


def _putting(put: Put, whole: Any, key: Any) -> Put:
    def put_in(value: Any) -> Any:
        copy = whole.copy() if whole is not None else {}
        copy[key] = value
        return put(copy)

    return put_in


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)
