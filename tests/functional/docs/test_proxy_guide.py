"""Proxies that let in only whom they know, as the deployment guide shows them."""

import json
import os
import re
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.docs.deploying import GUIDE, NAME, NGINX, Proxy, free_port, without_tls

pytestmark = pytest.mark.interop

VARIABLES = dict(
    line.split("=")
    for block in re.findall(r"<!-- variables: passwords -->\n```ini\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.split()
)
TEAMS = (Path(__file__).parents[3] / "docs" / "teams.md").read_text("utf-8")
PEOPLE = ("anna", "ben", "cleo")
SESSION = {"model": "qwen3:14b"}
QUESTION = {"model": "qwen3:14b", "message": "Hi"}
TOKEN = {"Authorization": "Bearer s3cret"}
PROXY_ADDRESS = "127.0.0.2"
FORWARDING = (
    "server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass {url}; proxy_bind {address};"
    " proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $remote_addr; }} }}"
)


def client_of(url: str, **options: Any) -> httpx.Client:
    return httpx.Client(base_url=url, trust_env=False, timeout=30, **options)


def password_file(folder: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = subprocess.run(
        ["openssl", "passwd", "-6", "secret"], check=True, capture_output=True, text=True
    )
    file = folder / "htpasswd"
    file.write_text(f"anna:{made.stdout}")
    return file


@pytest.mark.parametrize("mode", ["0660", "0600"])
def test_who_knows_the_proxys_password_needs_no_token(
    start: Callable[..., Any], nginx: Proxy, public_folder: Path, mode: str
) -> None:
    """nginx runs as another user where the tests may choose it: as root."""
    path = public_folder / "server.sock"
    here = {"MOCHI_UNIX_SOCKET": str(path), "MOCHI_UNIX_SOCKET_MODE": mode}
    start(**VARIABLES | here, MOCHI_API_TOKEN="s3cret")
    block = without_tls(NGINX["passwords"]).replace("/run/mochi/server.sock", str(path))
    url = nginx(
        block.replace("/etc/nginx/mochi.htpasswd", str(password_file(public_folder))), "http"
    )
    with client_of(url, headers={"Host": NAME}) as client:
        stranger = client.get("/api/v1/sessions")
        answer = client.get("/api/v1/sessions", auth=("anna", "secret"))
        stream = client.post("/api/v1/chat/stream", json=QUESTION, auth=("anna", "secret"))
    direct = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=direct, base_url="http://localhost") as client:
        beside_the_proxy = client.get("/api/v1/sessions")

    assert stat.S_IMODE(path.stat().st_mode) == int(mode, 8)
    assert stranger.status_code == 401
    assert beside_the_proxy.status_code == 401
    if mode == "0600" and os.getuid() == 0:
        assert answer.status_code == 502
    else:
        assert answer.status_code == 200
        assert "event: done" in stream.text


@pytest.mark.parametrize(
    ("trusted", "authenticates", "status"),
    [
        (PROXY_ADDRESS, "true", 200),
        (PROXY_ADDRESS, "", 200),
        (PROXY_ADDRESS, "false", 401),
        ("127.0.0.3", "true", 401),
        ("", "true", 401),
    ],
)
def test_only_a_proxy_that_is_trusted_to_authenticate_passes_on_without_a_token(
    start: Callable[..., Any], nginx: Proxy, trusted: str, authenticates: str, status: int
) -> None:
    server = start(
        MOCHI_API_TOKEN="s3cret",
        MOCHI_TRUSTED_PROXIES=trusted,
        MOCHI_PROXIES_AUTHENTICATE=authenticates,
    )
    url = nginx(FORWARDING.format(url=server.url, address=PROXY_ADDRESS), "http")
    claims = {name: PROXY_ADDRESS for name in ("X-Forwarded-For", "X-Real-IP", "Client-IP")}
    with client_of(url) as client:
        assert client.get("/api/v1/sessions").status_code == status
        assert client.get("/api/v1/sessions", headers=claims).status_code == status
        assert client.get("/api/v1/sessions", headers=TOKEN).status_code == 200
        assert ("version" in client.get("/api/v1/health").json()) is (status == 200)
    with client_of(server.url) as client:
        for headers in ({}, claims, {"Forwarded": f"for={PROXY_ADDRESS}"}):
            assert client.get("/api/v1/sessions", headers=headers).status_code == 401
        assert client.get("/api/v1/sessions", headers=TOKEN).status_code == 200


def test_each_person_has_a_server_below_a_path_and_a_token_of_its_own(
    start: Callable[..., Any], nginx: Proxy, tmp_path: Path
) -> None:
    block = without_tls(NGINX["people"])
    for place, name in enumerate(PEOPLE, start=8001):
        port = free_port()
        block = block.replace(f"127.0.0.1:{place}", f"127.0.0.1:{port}")
        start(
            "--port",
            str(port),
            MOCHI_DATA_DIR=str(tmp_path / name),
            MOCHI_ROOT_PATH=f"/{name}",
            MOCHI_ALLOWED_HOSTS=NAME,
            MOCHI_API_TOKEN=f"token-of-{name}",
        )
    url = nginx(block, "http")
    with client_of(url, headers={"Host": NAME}) as client:
        for name in PEOPLE:
            own = {"Authorization": f"Bearer token-of-{name}"}
            page = client.get(f"/{name}/")
            links = re.findall(r'(?:href|src)="([^"]+)"', page.text)
            assert links
            for link in links:
                assert client.get(httpx.URL(f"{url}/{name}/").join(link)).status_code == 200
            made = client.post(f"/{name}/api/v1/sessions", json=SESSION, headers=own)
            assert made.status_code == 201, made.text
            stream = client.post(f"/{name}/api/v1/chat/stream", json=QUESTION, headers=own)
            assert "event: done" in stream.text
            assert client.get(f"/{name}/v1/models", headers=own).status_code == 200
            for other in PEOPLE:
                listed = client.get(f"/{other}/api/v1/sessions", headers=own)
                assert listed.status_code == (200 if other == name else 401)
            assert client.get(f"/{name}/api/v1/sessions", headers=own).json()["total"] == 2
        for stranger in ("/", "/api/v1/health", "/dora/api/v1/health", "/anna"):
            assert client.get(stranger).status_code == 404
        assert json.loads(client.get("/anna/api/v1/health").text) == {"status": "ok"}


def test_the_ports_of_the_people_are_those_that_the_proxy_asks() -> None:
    [loop] = re.findall(r"<!-- people -->\n```sh\n(.*?)```", GUIDE, re.DOTALL)
    first, names = re.search(r"port=(\d+)\nfor name in ([a-z ]+); do", loop).groups()
    asked = dict(re.findall(r"~\^/(\w+)/ +127\.0\.0\.1:(\d+);", NGINX["people"]))

    assert asked == {name: str(int(first) + n) for n, name in enumerate(names.split())}
    assert tuple(asked) == PEOPLE


class LoginProxy(BaseHTTPRequestHandler):
    """Knows people by a cookie, as oauth2-proxy does with `--set-xauthrequest`."""

    def do_GET(self) -> None:
        email = (self.headers["Cookie"] or "").removeprefix("email=")
        self.send_response(202 if email else 401)
        if self.path == "/oauth2/auth" and email:
            self.send_header("X-Auth-Request-Email", email)
        body = b"Who are you?"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Keep quiet."""


@pytest.fixture
def login_proxy() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), LoginProxy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_who_logs_in_at_the_proxy_has_data_of_his_own(
    start: Callable[..., Any], nginx: Proxy, login_proxy: str
) -> None:
    block = next(iter(re.findall(r"<!-- nginx: owners -->\n```nginx\n(.*?)```", TEAMS, re.DOTALL)))
    given = next(iter(re.findall(r"<!-- variables: owners -->\n```ini\n(.*?)```", TEAMS, re.DOTALL)))
    server = start(**dict(line.split("=") for line in given.split()))
    address = server.url.removeprefix("http://")
    url = nginx(
        without_tls(block).replace("127.0.0.1:8000", address).replace("127.0.0.1:4180", login_proxy),
        "http",
    )
    people = ("Anna@example.org", "bob@example.org")
    with client_of(url, headers={"Host": NAME}) as client:
        stranger = client.get("/api/v1/sessions", headers={"X-Forwarded-Email": people[0]})
        assert stranger.text == "Who are you?"
        for person in people:
            cookie = {"Cookie": f"email={person}"}
            made = client.post("/api/v1/sessions", json=SESSION, headers=cookie)
            assert made.status_code == 201, made.text
            forged = cookie | {"X-Forwarded-Email": "other@example.org", "X-Mochi-Owner": "other"}
            listed = client.get("/api/v1/sessions", headers=forged).json()
            own = [session["session_id"] for session in listed["sessions"]]
            assert own == [made.json()["session_id"]]
            stream = client.post("/api/v1/chat/stream", json=QUESTION, headers=cookie)
            assert "event: done" in stream.text
    names = sorted(path.name for path in (server.data_dir / "users").iterdir())
    assert [name[:-6] for name in names] == ["anna-example.org-", "bob-example.org-"]
    with client_of(server.url) as client:
        direct = client.get("/api/v1/sessions", headers={"X-Forwarded-Email": people[0]})
    assert direct.status_code == 400
