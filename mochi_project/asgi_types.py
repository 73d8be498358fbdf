"""Names the types of ASGI."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Message = Mapping[str, Any]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Any], Awaitable[None]]  # Starlette's takes mutable mappings, asgiref's typed dicts
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
