"""The attributes of spans of turns, model calls and tools."""

from tests.unit.usage_app.traces.conftest import MODEL, SAME


def turn(state="completed", rounds=1, tool_calls=0, **more):
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": SAME,
        "gen_ai.request.model": MODEL,
        "mochi.turn.id": SAME,
        "mochi.purpose": "chat",
        "mochi.turn.state": state,
        "mochi.turn.rounds": rounds,
        "mochi.turn.tool_calls": tool_calls,
        **more,
    }


def asked(**more):
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": SAME,
        "gen_ai.system": "ollama",
        "gen_ai.provider.name": "ollama",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.stream": True,
        "server.address": "127.0.0.1",
        "server.port": SAME,
        "mochi.purpose": "chat",
        **more,
    }


def answered(span, **more):
    """Return what a model call that was answered has, with the tokens that the span has."""
    usage = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
    return asked(
        **{name: span[2][name] for name in usage},
        **{
            "gen_ai.response.time_to_first_chunk": SAME,
            "gen_ai.response.finish_reasons": ("stop",),
        },
        **more,
    )


def executed(name, **more):
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": SAME,
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": SAME,
        "gen_ai.tool.type": "function",
        **more,
    }
