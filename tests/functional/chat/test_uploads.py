"""Uploads and downloads of images and files, over real sockets."""

import hashlib
import socket
import time
import urllib.parse

import httpx
import pytest

from tests.unit.sessions_app.attachments import images

PICTURE = images.png(padding=300_000)
ID = f"sha256:{hashlib.sha256(PICTURE).hexdigest()}"


def upload(chat, data, **more):
    return chat.http.post("/attachments", content=data, **more)


def refused(reply, status, code):
    assert reply.status_code == status, reply.text
    assert reply.json()["error"]["code"] == code
    return reply.json()["error"]


def test_a_file_is_uploaded_once_and_sent_to_a_model(chat):
    first = upload(chat, PICTURE, params={"name": "../cat.png"})
    assert first.status_code in {200, 201}
    again = upload(chat, PICTURE)
    assert again.status_code == 200
    assert first.json() | {"name": "image.png"} == again.json()
    assert (first.json()["id"], first.json()["name"]) == (ID, "cat.png")
    session_id = chat.new_session(model="scripted-vision")
    reply = chat.http.post(f"/chat/{session_id}", json={"attachments": [ID]})
    assert ID in reply.json()["message"]["content"]


def test_a_form_with_a_file_is_an_upload(chat):
    reply = chat.http.post(
        "/attachments", data={"kind": "x"}, files={"file": ("Größe.png", PICTURE, "text/html")}
    )
    assert reply.status_code in {200, 201}, reply.text
    assert (reply.json()["id"], reply.json()["name"]) == (ID, "Größe.png")
    assert reply.json()["media_type"] == "image/png"


@pytest.mark.parametrize(
    ("data", "more", "status", "code"),
    [
        (b"", {}, 422, "VALIDATION_ERROR"),
        (b"\x00\x01", {}, 422, "VALIDATION_ERROR"),
        (PICTURE[:20], {}, 422, "VALIDATION_ERROR"),
        (images.png(40_000, 40_000), {}, 422, "VALIDATION_ERROR"),
        (b"x", {"headers": {"content-type": "multipart/form-data"}}, 422, "VALIDATION_ERROR"),
        (
            b"x",
            {"headers": {"content-type": "multipart/form-data; boundary=y"}},
            422,
            "VALIDATION_ERROR",
        ),
        (b"x", {"headers": {"content-encoding": "gzip"}}, 415, "UNSUPPORTED_MEDIA_TYPE"),
    ],
)
def test_what_is_no_file_is_refused(chat, data, more, status, code):
    refused(upload(chat, data, **more), status, code)


def test_two_files_in_a_form_are_refused(chat):
    files = [("a", ("a.txt", b"a")), ("b", ("b.txt", b"b"))]
    refused(chat.http.post("/attachments", files=files), 422, "VALIDATION_ERROR")


def test_a_file_that_is_too_large_is_refused_whether_announced_or_not(chat):
    size, limit = 21 * 1_048_576, 20 * 1_048_576
    announced = upload(chat, bytes(size))
    refused(announced, 413, "ATTACHMENT_TOO_LARGE")
    in_pieces = upload(chat, (b"x" * 65_536 for _ in range(size // 65_536)))
    refused(in_pieces, 413, "ATTACHMENT_TOO_LARGE")
    for reply in (announced, in_pieces):
        error = reply.json()["error"]
        assert error["details"]["max_bytes"] == limit
        assert f"{limit:,} bytes (MOCHI_MAX_ATTACHMENT_BYTES)" in error["message"]


def test_the_largest_file_is_taken_whether_announced_or_not(chat):
    largest = images.png(padding=20 * 1_048_576 - 200)
    announced = upload(chat, largest)
    assert announced.status_code == 201, announced.text
    in_pieces = upload(chat, (largest[at : at + 65_536] for at in range(0, len(largest), 65_536)))
    assert (in_pieces.status_code, in_pieces.json()) == (200, announced.json())


def test_a_client_that_leaves_in_the_middle_leaves_nothing(chat):
    url = urllib.parse.urlsplit(str(chat.http.base_url))
    data = images.png(padding=400_000, width=3)
    with socket.create_connection((url.hostname, url.port)) as client:
        client.sendall(
            b"POST /api/v1/attachments HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"
            % (url.netloc.encode(), len(data))
        )
        client.sendall(data[:200_000])
    assert upload(chat, b"another").status_code in {200, 201}
    missing = f"sha256:{hashlib.sha256(data).hexdigest()}"
    refused(chat.http.get(f"/attachments/{missing}"), 404, "ATTACHMENT_NOT_FOUND")


def test_a_kill_in_mid_upload_leaves_no_half_file(start):
    server = start()
    url = urllib.parse.urlsplit(server.url)
    data = images.png(padding=2_000_000, width=4)
    name = hashlib.sha256(data).hexdigest()
    folder = server.data_dir / "attachments"
    with socket.create_connection((url.hostname, url.port)) as client:
        client.sendall(
            b"POST /api/v1/attachments HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"
            % (url.netloc.encode(), len(data))
        )
        client.sendall(data[:1_000_000])
        deadline = time.monotonic() + 30
        while not any(one.stat().st_size for one in folder.glob(".incoming/*")):
            assert time.monotonic() < deadline, "nothing arrived"
            time.sleep(0.01)
        server.kill()
    assert list(folder.glob("??/*")) == []
    again = start().chat()
    refused(again.http.get(f"/attachments/sha256:{name}"), 404, "ATTACHMENT_NOT_FOUND")
    assert upload(again, data).status_code == 201
    assert again.http.get(f"/attachments/sha256:{name}").content == data


def test_a_file_is_downloaded_whole_and_in_parts(chat):
    upload(chat, PICTURE)
    whole = chat.http.get(f"/attachments/{ID}", params={"name": "a b.png"})
    assert whole.content == PICTURE
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["content-length"] == str(len(PICTURE))
    assert whole.headers["content-disposition"] == "inline; filename*=UTF-8''a%20b.png"
    assert "sandbox" in whole.headers["content-security-policy"]
    assert whole.headers["x-content-type-options"].startswith("nosniff")
    assert "immutable" in whole.headers["cache-control"]

    def part(wanted: str) -> httpx.Response:
        return chat.http.get(f"/attachments/{ID}", headers={"range": wanted})

    middle = part("bytes=10-19")
    assert (middle.status_code, middle.content) == (206, PICTURE[10:20])
    assert middle.headers["content-range"] == f"bytes 10-19/{len(PICTURE)}"
    assert part("bytes=-5").content == PICTURE[-5:]
    assert part(f"bytes={len(PICTURE) - 2}-").content == PICTURE[-2:]
    behind = part(f"bytes={len(PICTURE)}-")
    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(PICTURE)}")
    assert part("bytes=-0").status_code == 416
    assert part("bytes=5-1").content == PICTURE
    assert part("lines=1-2").content == PICTURE
    assert part(f"bytes=0-{'9' * 5000}").content == PICTURE
    known = chat.http.get(f"/attachments/{ID}", headers={"if-none-match": whole.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    head = chat.http.head(f"/attachments/{ID}")
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(PICTURE)))


def test_a_damaged_file_is_cut_off_instead_of_served_whole(chat, server):
    data = images.png(padding=300_000, width=5)
    kept = upload(chat, data).json()
    name = kept["id"].removeprefix("sha256:")
    (server.data_dir / "attachments" / name[:2] / name).write_bytes(data[:-1] + b"?")
    with pytest.raises(httpx.RemoteProtocolError):
        chat.http.get(f"/attachments/{kept['id']}")
    assert upload(chat, PICTURE).status_code in {200, 201}


@pytest.mark.parametrize(
    "page", [b"<script>alert(1)</script>", b"<svg xmlns='http://www.w3.org/2000/svg'/>"]
)
def test_what_a_browser_would_run_is_a_text_to_download(chat, page):
    kept = upload(chat, page, params={"name": "cat.png"}).json()
    reply = chat.http.get(f"/attachments/{kept['id']}")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.headers["content-disposition"].startswith("attachment;")


@pytest.mark.parametrize("attachment_id", ["sha256:" + "0" * 64, "sha256:..%2F..%2Fetc", "x"])
def test_what_is_not_there_is_not_found(chat, attachment_id):
    reply = chat.http.get(f"/attachments/{attachment_id}")
    assert reply.status_code == 404


def test_no_other_method_takes_an_upload(chat):
    for method in ("PUT", "PATCH", "DELETE"):
        reply = chat.http.request(method, "/attachments", content=PICTURE)
        assert reply.status_code == 405
    assert upload(chat, PICTURE).status_code in {200, 201}
