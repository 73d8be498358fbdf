"""A call starts nothing where a tool process waits for one."""

from collections.abc import Callable

from tools_app.hosts.pool import HostPool

WHO = """
    import os
    __all__ = ["who"]
    def who() -> str:
        "Tell which process runs this."
        return str(os.getpid())
"""


async def test_a_warm_call_starts_no_process(serve: Callable[..., HostPool]) -> None:
    hosts = serve(WHO)

    results = [await hosts.call("who", {}, timeout_seconds=20) for _ in range(200)]

    assert all(result.success for result in results)
    assert len({result.result for result in results}) == 1
