"""The chunks of a UI message stream."""

from dialects_app.ai_sdk.chunks import chunk, tool_chunk


def test_a_chunk_is_one_line_of_ascii_without_what_is_none() -> None:
    assert chunk("error", errorText="a\nb\N{SNOWMAN}", other=None) == (
        'data: {"type":"error","errorText":"a\\nb\\u2603"}\n\n'
    )


def test_a_call_is_one_that_the_server_runs_and_the_page_has_no_type_for() -> None:
    assert '"providerExecuted":true,"dynamic":true' in tool_chunk("tool-output-available", "c")
