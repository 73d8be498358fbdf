"""Stands in for the interpreter of one process of the suite, and has a warm one forked instead.

``worker.py SOCKET -u -c CODE``: what runs the code gets this program's streams and environment.
"""

import json
import os
import socket
import sys

path, *_, code = sys.argv[1:]
control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control.connect(path)
process, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request = {
    "command": ["-c", code],
    "env": dict(os.environ),
    "cwd": os.getcwd(),
    "takes_terminal": False,
    "numbers": [0, 1, 2],
}
socket.send_fds(control, [json.dumps(request).encode()], [theirs.fileno(), 0, 1, 2])
for descriptor in (theirs.detach(), 0, 1):  # who reads what it says shall see its end
    os.close(descriptor)
process.recv(64)  # its number
ended = process.recv(64)
os._exit(int(ended) & 0xFF if ended else 1)
