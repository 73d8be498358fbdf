"""A session whose lock another process holds keeps its own requests waiting, and no others."""

import fcntl
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.functional.conftest import Server, StartServer

WAITING = 20


def test_requests_that_wait_for_one_session_hold_up_no_others(start: StartServer) -> None:
    server: Server = start()
    chat = server.chat()
    contended = chat.new_session()
    free = next(name for _ in range(50) if (name := chat.new_session())[:2] != contended[:2])
    chat.http.patch(f"/sessions/{contended}", json={"title": "Mine"}).raise_for_status()
    [lock] = server.data_dir.glob(f"**/.locks/{contended[:2]}*")

    def rename(number: int) -> httpx.Response:
        with server.chat().http as http:
            return http.patch(f"/sessions/{contended}", json={"title": str(number)})

    with lock.open("rb") as held, ThreadPoolExecutor(WAITING) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = [pool.submit(rename, number) for number in range(WAITING)]
        for number in range(WAITING):
            answer = chat.http.patch(f"/sessions/{free}", json={"title": str(number)}, timeout=5)
            assert answer.status_code == 200
        assert not any(each.done() for each in waiting)
        fcntl.flock(held, fcntl.LOCK_UN)
        assert {each.result().status_code for each in waiting} == {200}
