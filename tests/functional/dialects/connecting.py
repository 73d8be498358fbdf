"""How clients reach a certain web process of a server."""

from contextlib import suppress

import openai


def client_at(server, number, connect):
    """Return a client whose connection is to this web process, until it was idle for 5 s."""
    workers = sorted(server.web_processes, key=lambda worker: worker.pid)
    others = [worker for worker in workers if worker.pid != workers[number].pid]
    client = connect(server)
    for worker in others:
        worker.suspend()
    try:
        with suppress(openai.NotFoundError):
            client.responses.retrieve("resp_none")
    finally:
        for worker in others:
            worker.resume()
    return client
