"""Names the types of ASGI, so that those of all frameworks fit (docs/decisions/0164)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Message = Mapping[str, Any]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Any], Awaitable[None]]  # Starlette's takes mutable mappings, asgiref's typed dicts
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
