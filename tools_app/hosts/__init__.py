"""Tool hosts: processes in which users' functions are imported and run, never the server itself.

::

    server ──exec, once──> launcher (program) ──fork──> warden ──fork──> worker: the user's code
       │                                                  │                 │
       ├──────────────── lifeline ────────────────────────┘                 │
       └──────────────── calls ─────────────────────────────────────────────┘

The parent's side is ``fork_server_client``, ``host``, ``descriptors``, ``output_log`` and
``pool``; the child's side is ``fork_server``, ``reaper``, ``tool_process``, ``answers`` and
``processes``; both know ``messages`` and ``limits``. Why there are a launcher and wardens:
docs/decisions/0011.
"""
