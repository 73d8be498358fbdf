"""Becomes an nginx that passes streams on to the model: what a proxy costs that looks at nothing.

    python tests/benchmarks/nginx_proxy.py --port 8000

Its configuration is written to the current folder; ``MOCHI_OLLAMA_HOST`` says where the model is.
"""

import argparse
import os
from pathlib import Path

CONFIGURATION = """\
daemon off; master_process off; worker_rlimit_nofile 65536; pid nginx.pid; error_log stderr error;
events {{ worker_connections 32768; }}
http {{
    access_log off; keepalive_timeout 3600; keepalive_requests 100000000;
    client_body_temp_path bodies; proxy_temp_path proxied;
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    upstream model {{ server {upstream}; keepalive 4096; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_buffering off; proxy_read_timeout 3600;
        }}
    }}
}}
"""


def main() -> None:
    """Write the configuration and become nginx."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    upstream = os.environ["MOCHI_OLLAMA_HOST"].removeprefix("http://").rstrip("/")
    folder = Path.cwd()
    path = folder / "nginx.conf"
    path.write_text(CONFIGURATION.format(upstream=upstream, port=port))
    os.execvp("nginx", ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(path)])


if __name__ == "__main__":
    main()
