"""Runs users' functions in *hosts*: tool processes, each with a reaper, never the server itself.

::

    server ──exec, once──> fork server ──fork──> reaper ──fork──> tool process: the user's code
       │                                            │                  │
       ├───────────── lifeline ─────────────────────┘                  │
       └───────────── calls ───────────────────────────────────────────┘

The parent's side is ``fork_server_client``, ``host``, ``descriptors``, ``output_log`` and ``pool``;
the child's side is ``fork_server``, ``reaper``, ``tool_process``, ``answers`` and
``returned_files``; both use ``messages`` and ``limits``. The reasons are in docs/decisions/0011,
which calls the fork server launcher, the reaper warden and the tool process worker.
"""
