"""What a call costs where a tool process waits for one."""

import time
from collections.abc import Callable

from tools_app.hosts.pool import HostPool

ADD = """
    __all__ = ["add"]
    def add(a: float, b: float) -> float:
        "Add two numbers."
        return a + b
"""


async def test_a_warm_call_costs_less_than_3_ms(
    serve: Callable[..., HostPool], record_property: Callable[[str, object], None]
) -> None:
    hosts = serve(ADD)
    took = []
    for number in range(201):
        began = time.perf_counter()
        result = await hosts.call("add", {"a": number, "b": 1}, timeout_seconds=20)
        took.append(time.perf_counter() - began)
        assert result.result == str(float(number + 1))
    took.sort()
    record_property("median_ms", round(took[100] * 1000, 3))

    # What the machine does beside this comes on top, so not the median is asked for.
    assert took[20] < 0.003
