"""What the deployment guide shows works: nginx, systemd, containers."""

import re
import shutil
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from mochi_project.configuration.loading import MochiSettings
from models_app.vendors.registry import KNOWN_VENDORS
from tests.functional.docs.deploying import GUIDE, NAME, NGINX, ROOT, Proxy, free_port

CLUSTER_GUIDE = (ROOT / "docs/cluster.md").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text("utf-8")
CLUSTER = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text("utf-8"))
CLUSTER_NGINX = (ROOT / "nginx.cluster.conf").read_text("utf-8")
NODES = ("mochi1", "mochi2", "mochi3")
UNITS = dict(
    re.findall(
        r"`/etc/systemd/system/(\S+)`:\n\n<!-- systemd -->\n```ini\n(.*?)```\n", GUIDE, re.DOTALL
    )
)
TOKEN = {"Authorization": "Bearer s3cret"}



def certificate(place: Path) -> tuple[Path, Path]:
    """Make a certificate that nobody has signed."""
    pair = (place / "chat.pem", place / "chat.key")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={NAME}"]
        + ["-days", "1", "-out", str(pair[0]), "-keyout", str(pair[1])],
        check=True,
        capture_output=True,
    )
    return pair


@pytest.mark.interop
def test_nginx_with_tls_passes_pages_of_its_own_origin_and_streams(
    start: Callable[..., Any], nginx: Proxy, tmp_path: Path
) -> None:
    server = start(MOCHI_ALLOWED_HOSTS=NAME, MOCHI_API_TOKEN="s3cret")
    public, key = certificate(tmp_path)
    block = NGINX["root"].replace("http://127.0.0.1:8000", server.url)
    block = block.replace("listen 443", "listen 127.0.0.1:@PORT@")
    block = block.replace(f"/etc/ssl/{NAME}.pem", str(public))
    block = block.replace(f"/etc/ssl/{NAME}.key", str(key))
    url = nginx(block, "https")
    authority = f"{NAME}:{url.rpartition(':')[2]}"
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    own = {"Host": authority, "Origin": f"https://{authority}", **TOKEN}
    with httpx.Client(base_url=url, verify=unchecked, trust_env=False, timeout=30) as client:
        page = client.get("/api/v1/sessions", headers=own)
        stream = client.post(
            "/api/v1/chat/stream", headers=own, json={"model": "qwen3:14b", "message": "Hi"}
        )
        models = client.get("/v1/models", headers=own)
        upload = client.post(
            "/api/v1/attachments?name=notes.txt", headers=own, content=b"a line\n" * 2**19
        )
        stranger = client.get("/api/v1/sessions", headers={"Host": authority})

    assert models.status_code == 200
    assert upload.status_code == 201, upload.text
    assert page.status_code == 200
    assert "event: done" in stream.text
    assert stranger.status_code == 401


@pytest.mark.interop
def test_nginx_offers_the_docs_page_below_a_path(start: Callable[..., Any], nginx: Proxy) -> None:
    server = start(MOCHI_ROOT_PATH="/mochi", MOCHI_API_TOKEN="s3cret")
    location = NGINX["path"].replace("http://127.0.0.1:8000", server.url)
    url = nginx(f"server {{ listen 127.0.0.1:@PORT@; {location} }}", "http")
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        page = client.get("/mochi/api/v1/docs").text
        links = re.findall(r'(?:href|src)="([^"]+)"', page) + ["/mochi/api/v1/openapi.json"]
        answers = [client.get(link).status_code for link in links]
        sessions = client.get("/mochi/api/v1/sessions", headers=TOKEN)

    assert answers == [200] * 5
    assert sessions.json()["total"] == 0


@pytest.mark.interop
def test_the_proxy_of_a_cluster_passes_streams_to_its_nodes(
    start: Callable[..., Any], nginx: Proxy
) -> None:
    server = start(MOCHI_API_TOKEN="s3cret")
    url = nginx(cluster_block([server.url.removeprefix("http://")] * 3), "http")
    with httpx.Client(base_url=url, trust_env=False, timeout=30, headers=TOKEN) as client:
        streams = [
            client.post("/api/v1/chat/stream", json={"model": "qwen3:14b", "message": "Hi"})
            for _ in NODES
        ]
        models = client.get("/v1/models")

    assert ["event: done" in stream.text for stream in streams] == [True] * 3
    assert models.status_code == 200


def cluster_block(addresses: Sequence[str]) -> str:
    """Return nginx's configuration of a cluster, with the addresses of its nodes."""
    block = CLUSTER_NGINX.replace("listen 8000", "listen 127.0.0.1:@PORT@")
    for node, address in zip(NODES, addresses, strict=True):
        assert CLUSTER_GUIDE.count(f"server {node}:8000 max_fails=0;") == 1
        assert block.count(f"server {node}:8000 max_fails=0;") == 1
        block = block.replace(f"{node}:8000", address)
    return block


@contextmanager
def node_at(port: int) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", port), Node) as node:
        serving = threading.Thread(target=node.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield
        finally:
            node.shutdown()
            serving.join()


class Node(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.mark.interop
def test_whichever_node_is_up_the_proxy_of_a_cluster_finds_it_at_once(nginx: Proxy) -> None:
    ports = [free_port() for _ in NODES]
    url = nginx(cluster_block([f"127.0.0.1:{port}" for port in ports]), "http")
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        for port in ports:
            with node_at(port):
                assert [client.get("/").status_code for _ in NODES] == [204] * 3


@pytest.mark.parametrize("name", ["mochi-server.service", "mochi-server@.service"])
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path, name: str) -> None:
    text = UNITS[name]
    variables = re.findall(r"MOCHI_(\w+)", text)
    assert {name.lower() for name in variables} <= MochiSettings.model_fields.keys()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / name
    unit.write_text(text.replace("/opt/mochi/bin/mochi-server", sys.executable))

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )

    complaints = [line for line in verified.stderr.splitlines() if unit.name in line]
    assert complaints == []


def test_the_image_runs_as_a_user_and_asks_ollama_on_its_host() -> None:
    last_stage = DOCKERFILE.rpartition("FROM ")[2]

    assert re.findall(r"^USER (.*)$", last_stage, re.MULTILINE) == ["1000:1000"]
    assert "MOCHI_OLLAMA_HOST=http://host.docker.internal:11434" in last_stage
    assert "--add-host host.docker.internal:host-gateway" in DOCKERFILE


def test_the_image_is_built_of_versions_that_are_named() -> None:
    assert re.search(r"pip install --no-cache-dir uv==\d+\.\d+\.\d+$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
    for kind in ("constraint-dependencies", "build-constraint-dependencies"):
        assert all("==" in constraint for constraint in pinned[kind])
    assert any(each.startswith("hatchling==") for each in pinned["build-constraint-dependencies"])


def test_compose_passes_keys_of_vendors_and_reaps_processes() -> None:
    server = yaml.safe_load(COMPOSE)["services"]["mochi"]
    keys = {name for vendor in KNOWN_VENDORS for name in vendor.key_variables}

    assert server["init"] is True
    assert keys <= {name for name, value in server["environment"].items() if value is None}
    assert server["environment"]["MOCHI_OLLAMA_HOST"] == "${MOCHI_OLLAMA_HOST:-http://ollama:11434}"
    assert server["extra_hosts"] == ["host.docker.internal:host-gateway"]


def test_the_stanza_for_a_gpu_needs_nothing_but_its_comment_signs_taken() -> None:
    stanza = COMPOSE[COMPOSE.index("    # deploy:") : COMPOSE.index("\nvolumes:")]
    text = COMPOSE.replace(stanza, re.sub(r"^    # ", "    ", stanza, flags=re.MULTILINE))

    deploy = yaml.safe_load(text)["services"]["ollama"]["deploy"]

    [device] = deploy["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]


def test_the_nodes_of_a_cluster_are_alike_and_keep_nothing() -> None:
    services = CLUSTER["services"]
    node = services[NODES[0]]
    worker = services["worker"]

    assert all(services[name] == node for name in NODES)
    assert {**worker, "command": 0, "healthcheck": 0, "deploy": 0} == {
        **node,
        **{"command": 0, "healthcheck": 0, "deploy": 0},
    }
    assert (worker["command"], worker["deploy"]) == (["mochi-server", "qcluster"], {"replicas": 2})
    assert node["tmpfs"] == ["/data:mode=0700,uid=1000,gid=1000"]
    assert all(volume.endswith(":ro") for volume in node["volumes"])
    assert node["environment"]["MOCHI_BACKGROUND_WORKER"] == "false"
    assert services["nginx"]["depends_on"] == [*NODES]


def test_a_cluster_is_given_its_secrets_and_settings_that_there_are() -> None:
    environment = CLUSTER["services"]["mochi1"]["environment"]
    names = [name for name in environment if name.startswith("MOCHI_")]
    keys = {name for vendor in KNOWN_VENDORS for name in vendor.key_variables}

    assert {name.removeprefix("MOCHI_").lower() for name in names} <= (
        MochiSettings.model_fields.keys()
    )
    assert keys <= {name for name, value in environment.items() if value is None}
    for name in ("MOCHI_API_TOKEN", "MOCHI_SECRET_KEY"):
        assert environment[name] == f"${{{name}:?set {name} in .env}}"
    assert "VALKEY_PASSWORD:?" in environment["MOCHI_JOURNAL_URL"]


def test_what_lives_in_a_cluster_is_never_thrown_away() -> None:
    services = CLUSTER["services"]
    valkey = services["valkey"]["command"]

    assert "--maxmemory-policy noeviction" in valkey
    assert "--appendonly yes" in valkey
    for name, path in (("valkey", "/data"), ("store", "/data")):
        assert services[name]["volumes"] == [f"{name}:{path}"]
        assert name in CLUSTER["volumes"]
    published = {name for name, service in services.items() if service.get("ports")}
    assert published == {"nginx"}


def test_proxies_let_the_largest_body_through_that_the_server_takes() -> None:
    largest = max(
        field.default
        for name, field in MochiSettings.model_fields.items()
        if "max_" in name and name.endswith("_bytes")
    )
    sizes = [
        int(size) * 2**20
        for text in (GUIDE, CLUSTER_GUIDE, CLUSTER_NGINX)
        for size in re.findall(r"client_max_body_size (\d+)m;", text)
    ]

    assert sizes == [largest] * 6


def test_the_image_has_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    [sync] = re.findall(r"^RUN uv sync (.*)$", DOCKERFILE, re.MULTILINE)

    assert set(re.findall(r"--extra (\w+)", sync)) == set(extras)


def test_the_guides_name_commands_that_a_wheel_has() -> None:
    """``manage.py`` is in a clone only."""
    pages = [ROOT / "docs" / name for name in ("deployment.md", "context.md", "test-mode.md")]

    assert [page.name for page in pages if "manage.py" in page.read_text("utf-8")] == []
