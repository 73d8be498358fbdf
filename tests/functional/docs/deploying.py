"""The blocks of the deployment guide, and ports to try them on."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/deployment.md").read_text("utf-8")
NGINX = dict(re.findall(r"<!-- nginx: (\w+) -->\n```nginx\n(.*?)```\n", GUIDE, re.DOTALL))
NAME = "chat.example.org"

Proxy = Callable[[str, str], str]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def without_tls(block: str) -> str:
    """Return a block of the guide that listens on a free port, and needs no certificate."""
    return re.sub(r"ssl_certificate\w* .*;\n", "", block).replace(
        "listen 443 ssl http2;", "listen 127.0.0.1:@PORT@;"
    )
