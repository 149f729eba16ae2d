"""The corpus of smuggled requests, sent to this engine through real proxies.

Each proxy keeps its connections to the engine and puts a line of its own into every request that it
forwards. A request without that line would be one that the proxy never saw: smuggled.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpost.http11.application import Application
from mcpost.http11.exchange import Exchange
from mcpost.http11.head import Request
from tests.helpers.loop import run
from tests.helpers.ports import free_port
from tests.helpers.until import DEADLINE
from tests.unit.http11.smuggling import REQUESTS
from tests.unit.http11.sockets import serving

NGINX = """
daemon off; pid nginx.pid; error_log /dev/null; worker_processes 1;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f;
  uwsgi_temp_path u; scgi_temp_path s; client_header_timeout 2; client_body_timeout 2;
  ignore_invalid_headers off; underscores_in_headers on;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 4; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_request_buffering off;
      proxy_set_header Connection ""; proxy_set_header X-Proxied yes;
    }}
  }}
}}
"""

TYPES = "type.googleapis.com/envoy.extensions.filters"
ENVOY = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": {types}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: x
          http_protocol_options: {{accept_http_10: true, allow_chunked_length: true}}
          request_headers_timeout: 2s
          stream_idle_timeout: 3s
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": {types}.http.router.v3.Router
          route_config:
            request_headers_to_add: [{{header: {{key: x-proxied, value: "yes"}}}}]
            virtual_hosts:
            - name: x
              domains: ["*"]
              routes: [{{match: {{prefix: /}}, route: {{cluster: engine}}}}]
  clusters:
  - name: engine
    type: STATIC
    load_assignment:
      cluster_name: engine
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {engine}}}}}}}
"""


class Noting(Application[Exchange]):
    """Answers with the path; keeps those that no proxy forwarded."""

    def __init__(self) -> None:
        self.count = 0
        self.smuggled: list[str] = []

    def open(self, request: Request, exchange: Exchange) -> None:
        self.count += 1
        if request.fields.get(b"x-proxied") != b"yes":
            self.smuggled.append(request.path)

    def handle(self, request: Request, body: bytes, exchange: Exchange) -> None:
        exchange.respond(200, [(b"x-path", request.path.encode())], b"%d" % len(body))


@contextlib.asynccontextmanager
async def proxied(kind: str, engine: int, folder: Path) -> AsyncIterator[int]:
    program = shutil.which(kind) or shutil.which(kind, path="/usr/sbin")
    if program is None:
        pytest.skip(f"{kind} is not installed")
    port = free_port()
    if kind == "nginx":
        (folder / "conf").write_text(NGINX.format(port=port, engine=engine), "utf-8")
        command = [program, "-e", "stderr", "-p", str(folder), "-c", "conf"]
    else:
        text = ENVOY.format(port=port, engine=engine, types=TYPES)
        (folder / "conf.yaml").write_text(text, "utf-8")
        options = ["--use-dynamic-base-id", "--concurrency", "1", "-l", "off"]
        command = [program, *options, "-c", str(folder / "conf.yaml")]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until_it_listens(port)
        yield port
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), DEADLINE)


async def until_it_listens(port: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)  # another's process tells nobody when it listens
            else:
                writer.close()
                return


async def send(port: int, data: bytes) -> None:
    """Send bytes, and take what comes until the proxy ends the connection, or for a while."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(TimeoutError, ConnectionError):
        writer.write(data)
        async with asyncio.timeout(0.5):
            await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def ask(port: int, path: str) -> bytes:
    """Ask honestly; gives the path that the answer is for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path.encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.partition(b"x-path: ")[2].partition(b"\r\n")[0]


@pytest.mark.parametrize("kind", ["nginx", "envoy"])
def test_nothing_is_smuggled_past_a_proxy_and_every_answer_finds_its_caller(
    kind: str, tmp_path: Path
) -> None:
    async def main() -> tuple[Noting, list[tuple[str, bytes]]]:
        app = Noting()
        strays: list[tuple[str, bytes]] = []
        async with serving(app) as listener, proxied(kind, listener.port, tmp_path) as port:
            room = asyncio.Semaphore(8)

            async def one(number: int, name: str, data: bytes) -> None:
                async with room:
                    await send(port, data)
                    answered = await ask(port, f"/honest/{number}")
                    if answered != f"/honest/{number}".encode():
                        strays.append((name, answered))

            rows = [(name, data) for name, data, _ in REQUESTS]
            await asyncio.gather(*(one(number, *row) for number, row in enumerate(rows)))
        return app, strays

    app, strays = run(main(), debug=False)

    assert strays == []
    assert app.smuggled == []
    assert app.count >= len(REQUESTS)
