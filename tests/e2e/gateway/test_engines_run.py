"""What real Envoy and nginx do with streams, silence, breaks and bounds, by the exported policy."""

from __future__ import annotations

import contextlib
import itertools
import json
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mcpost.gateway.export.settings import ExportSettings
from mcpost.gateway.policy import Policy
from mcpost.gateway.policy_read import read_policy
from tests.e2e.gateway.acting import Acting, act
from tests.e2e.gateway.engines import (
    Engine,
    command_of,
    find_old_nginx,
    hang_up,
    run_engine,
    run_exported,
)
from tests.helpers.ports import free_port
from tests.helpers.until import DEADLINE

IDLE = 1.0
LARGEST = 100_000
SETTINGS = ExportSettings(connect_timeout=1, idle_timeout=IDLE, max_body=LARGEST)
ENGINES = ["envoy", "nginx"]
ROUTING = b"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n"
KEYS = (b"%d" % number for number in itertools.count())


def policy_of(*ports: int, rules: str = "", default: str = "allow") -> Policy:
    urls = json.dumps([f"http://127.0.0.1:{port}/mcp" for port in ports])
    return read_policy(f"""
default = "{default}"
upstream = "here"
[[listeners]]
bind = "127.0.0.1:{free_port()}"
[upstreams.here]
endpoints = {urls}
{rules}
""")


class Talk:
    """One connection to an engine."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.file = self.socket.makefile("rb")
        self.key = next(KEYS)
        self.read = b""
        self.status = 0
        self.fields: dict[bytes, bytes] = {}

    def send(self, do: bytes = b"answer", body: bytes = b"{}", more: bytes = b"") -> Talk:
        """Send a call."""
        size = b"content-length: %d\r\n" % len(body) if b"chunked" not in more else b""
        said = b"x-do: %b\r\nx-key: %b\r\nmcp-name: add\r\n" % (do, self.key)
        head = b"POST /mcp HTTP/1.1\r\nhost: gateway\r\n" + ROUTING + said + size + more
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(head + b"\r\n" + body)
        return self

    def head(self) -> Talk:
        """Read the head of the answer."""
        self.status = int(self.file.readline().split()[1])
        self.fields = {}
        while line := self.file.readline().strip():
            name, _, value = line.partition(b":")
            self.fields[name.lower()] = value.strip()
        return self

    def error(self) -> dict[str, object]:
        """Read a JSON-RPC error of the engine's own."""
        assert self.fields[b"content-type"] == b"application/json"
        body = self.file.read(int(self.fields[b"content-length"]))
        found: dict[str, object] = json.loads(body)["error"]
        return found

    def event(self) -> bytes:
        """Read the next event, comments passed over; empty at the end. EOFError at a cut."""
        while True:
            found, mark, rest = self.read.partition(b"\n\n")
            if mark:
                self.read = rest
                if not found.startswith(b":"):
                    return found
                continue
            line = self.file.readline()
            if not line:
                raise EOFError
            piece = self.file.read(int(line, 16) + 2)[:-2]
            if not piece:
                return b""
            self.read += piece

    def close(self) -> None:
        """Leave."""
        self.file.close()
        self.socket.close()


class Site:
    """An engine in front of an upstream that does as it is told."""

    def __init__(self, engine: Engine, upstream: Acting) -> None:
        self.engine = engine
        self.upstream = upstream
        self.kind = engine.kind

    @contextlib.contextmanager
    def talk(self) -> Iterator[Talk]:
        """A connection to the engine."""
        self.upstream.go.clear()
        with contextlib.closing(Talk(self.engine.port)) as talk:
            yield talk


@contextlib.contextmanager
def open_site(kind: str, where: Path, settings: ExportSettings) -> Iterator[Site]:
    with act() as upstream, act() as other:
        # Were a call repeated, there would be somewhere to repeat it.
        other.seen, other.came = upstream.seen, upstream.came
        other.left, other.go = upstream.left, upstream.go
        policy = policy_of(upstream.port, other.port)
        with run_exported(kind, policy, where / "run", settings) as engine:
            yield Site(engine, upstream)


@pytest.fixture(scope="module", params=ENGINES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """An engine that is soon out of patience."""
    where = tmp_path_factory.mktemp(request.param)
    with open_site(request.param, where, SETTINGS) as found:
        yield found


@pytest.fixture(scope="module", params=ENGINES)
def patient(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """An engine with the timeouts that are exported unless others are asked for."""
    where = tmp_path_factory.mktemp(request.param)
    with open_site(request.param, where, replace(SETTINGS, idle_timeout=300)) as found:
        yield found


@pytest.mark.parametrize("do", [b"stream", b"obey"])
def test_each_event_arrives_before_the_next_is_said(site: Site, do: bytes) -> None:
    with site.talk() as talk:
        talk.send(do).head()
        assert talk.event() == b"data: 1"
        site.upstream.go.set()
        assert [talk.event(), talk.event()] == [b"data: 2", b""]
        # nginx keeps this header to itself unless told not to; another in front needs it.
        assert talk.fields.get(b"x-accel-buffering") == (b"yes" if do == b"obey" else None)


def test_comments_keep_a_stream_open_beyond_the_idle_timeout(site: Site) -> None:
    with site.talk() as talk:
        talk.send(b"comments").head()
        assert [talk.event(), talk.event(), talk.event()] == [b"data: 1", b"data: 2", b""]


def test_a_silent_stream_is_cut_and_not_ended(site: Site) -> None:
    with site.talk() as talk:
        talk.send(b"stream-silent").head()
        assert talk.event() == b"data: 1"
        with pytest.raises((EOFError, ConnectionError)):
            talk.event()
        assert site.upstream.left[talk.key].wait(DEADLINE)


def test_silence_before_the_answer_is_a_gateway_timeout(site: Site) -> None:
    with site.talk() as talk:
        talk.send(b"silent").head()
        assert (talk.status, talk.fields[b"mcpost-gateway"]) == (504, b"failed")
        assert talk.error()["data"] == {"gateway": "failed", "sent": "maybe"}
        assert site.upstream.left[talk.key].wait(DEADLINE)
    assert site.upstream.seen[talk.key] == 1


ASKS_FOR_MORE = (
    b"x-envoy-retry-on: 5xx,reset,connect-failure,gateway-error\r\nx-envoy-max-retries: 3\r\n"
    b"x-envoy-upstream-rq-per-try-timeout-ms: 100\r\nx-envoy-hedge-on-per-try-timeout: true\r\n"
)


@pytest.mark.parametrize("more", [b"", ASKS_FOR_MORE], ids=["", "asked for"])
@pytest.mark.parametrize("do", [b"reset", b"close", b"silent"])
def test_a_call_is_sent_once_whatever_becomes_of_it(site: Site, do: bytes, more: bytes) -> None:
    with site.talk() as talk:
        # The first answer leaves a connection, which the next call finds in the pool.
        talk.send().head().file.read(int(talk.fields[b"content-length"]))
        talk.key = next(KEYS)
        talk.send(do, more=more).head()
        assert talk.status == (504 if do == b"silent" else 502)
        assert talk.error()["data"] == {"gateway": "failed", "sent": "maybe"}
    assert site.upstream.seen[talk.key] == 1


def test_a_stream_that_breaks_off_is_cut_and_not_ended(site: Site) -> None:
    with site.talk() as talk:
        talk.send(b"stream-reset").head()
        assert talk.event() == b"data: 1"
        site.upstream.go.set()
        with pytest.raises((EOFError, ConnectionError)):
            talk.event()
    assert site.upstream.seen[talk.key] == 1


@pytest.mark.parametrize("do", [b"silent", b"stream-silent"])
def test_a_client_that_leaves_is_told_to_the_upstream(patient: Site, do: bytes) -> None:
    with patient.talk() as talk:
        talk.send(do)
        if do == b"stream-silent":
            talk.head()
            assert talk.event() == b"data: 1"
        else:
            assert patient.upstream.arrived(talk.key)
        talk.close()
        assert patient.upstream.left[talk.key].wait(DEADLINE)


CHUNKED = b"transfer-encoding: chunked\r\n"


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_as_large_as_the_bound_passes_and_a_larger_one_does_not(
    patient: Site, is_chunked: bool
) -> None:
    for size, status in ((LARGEST, 200), (LARGEST + 1, 413)):
        body = b" " * size
        with patient.talk() as talk:
            if is_chunked:
                talk.send(body=chunked(body), more=CHUNKED).head()
            else:
                talk.send(body=body).head()
            assert talk.status == status
            if status == 200:
                assert (
                    json.loads(talk.file.read(int(talk.fields[b"content-length"])))["size"] == size
                )
            else:
                assert talk.fields[b"mcpost-gateway"] == b"refused"
                assert talk.error()["message"] == "the body is too large"
    assert patient.upstream.seen[talk.key] == 0


# Bytes of one value, of a header that no rule reads: what each engine says to it.
LENGTHS = {
    8_000: {"envoy": 200, "nginx": 200},
    32_000: {"envoy": 200, "nginx": 200},
    33_000: {"envoy": 200, "nginx": 400},
    60_000: {"envoy": 200, "nginx": 400},
    66_000: {"envoy": 431, "nginx": 400},
}


@pytest.mark.parametrize("length", LENGTHS)
def test_how_long_a_header_may_be(patient: Site, length: int) -> None:
    with patient.talk() as talk:
        talk.send(more=b"x-long: %b\r\n" % (b"x" * length)).head()
        assert talk.status == LENGTHS[length][patient.kind]


@pytest.mark.parametrize("kind", ENGINES)
def test_an_endpoint_that_is_down_is_passed_over(kind: str, tmp_path: Path) -> None:
    with act() as upstream:
        policy = policy_of(free_port(), upstream.port)
        with run_exported(kind, policy, tmp_path / "run", SETTINGS) as engine:
            for _ in range(6):
                with contextlib.closing(Talk(engine.port)) as talk:
                    assert talk.send().head().status == 200
                    assert upstream.seen[talk.key] == 1


@pytest.mark.parametrize("kind", ENGINES)
def test_an_upstream_that_is_down_has_seen_nothing(kind: str, tmp_path: Path) -> None:
    with (
        run_exported(kind, policy_of(free_port()), tmp_path / "run", SETTINGS) as engine,
        contextlib.closing(Talk(engine.port)) as talk,
    ):
        talk.send().head()
        assert (talk.status, talk.fields[b"mcpost-gateway"]) == (502, b"failed")
        # nginx does not tell "no connection" from "no answer".
        sent = {"envoy": "no", "nginx": "maybe"}[kind]
        assert talk.error()["data"] == {"gateway": "failed", "sent": sent}


@pytest.mark.parametrize("kind", ENGINES)
def test_a_rate_lets_through_its_burst_and_says_when_to_come_back(
    kind: str, tmp_path: Path
) -> None:
    rules = '[[rules]]\naction = "allow"\nrate = { requests = 1, per = 60, burst = 3 }\n'
    with act() as upstream:
        policy = policy_of(upstream.port, rules=rules)
        with run_exported(kind, policy, tmp_path / "run") as engine:
            for status in (200, 200, 200, 429, 429):
                with contextlib.closing(Talk(engine.port)) as talk:
                    assert talk.send().head().status == status
                    if status == 429:
                        assert talk.fields[b"retry-after"] == b"60"
                        assert talk.fields[b"mcpost-gateway"] == b"refused"
                        assert talk.error()["message"] == "too many calls"
        assert upstream.seen.total() == 3


def test_envoy_bounds_what_waits_for_one_upstream(tmp_path: Path) -> None:
    settings = replace(SETTINGS, max_connections=1, max_waiting=1, idle_timeout=300)
    with (
        act() as upstream,
        run_exported("envoy", policy_of(upstream.port), tmp_path / "run", settings) as engine,
        contextlib.closing(Talk(engine.port)) as first,
        contextlib.closing(Talk(engine.port)) as second,
        contextlib.closing(Talk(engine.port)) as third,
    ):
        first.send(b"stream").head()
        second.send()
        third.send()
        # Which of the two came first, Envoy alone knows.
        found, _, _ = select.select([second.socket, third.socket], [], [], DEADLINE)
        busy, waits = (second, third) if found == [second.socket] else (third, second)
        assert busy.head().status == 503
        assert busy.error()["data"] == {"gateway": "failed", "sent": "no"}
        upstream.go.set()
        assert waits.head().status == 200


@pytest.mark.parametrize("kind", ENGINES)
def test_a_rule_may_list_many_names(kind: str, tmp_path: Path) -> None:
    names = json.dumps([f"a-name-of-some-length-{number}" for number in range(400)])
    rules = f'[[rules]]\naction = "allow"\nname = {names}\n'
    with act() as upstream:
        policy = policy_of(upstream.port, rules=rules, default="deny")
        with run_exported(kind, policy, tmp_path / "run") as engine:
            for name, status in (("a-name-of-some-length-399", 200), ("a-name-400", 403)):
                with contextlib.closing(Talk(engine.port)) as talk:
                    head = b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n" + ROUTING
                    talk.socket.sendall(head + f"mcp-name: {name}\r\n\r\n".encode())
                    assert talk.head().status == status


# Rolling out another policy, and the end.


def deny_all(policy: Policy) -> Policy:
    return replace(policy, default="deny")


def test_nginx_takes_another_policy_and_its_streams_go_on(tmp_path: Path) -> None:
    with act() as upstream:
        policy = policy_of(upstream.port)
        with (
            run_exported("nginx", policy, tmp_path / "run") as engine,
            contextlib.closing(Talk(engine.port)) as stream,
        ):
            stream.send(b"stream").head()
            assert stream.event() == b"data: 1"
            engine.write(deny_all(policy))
            hang_up(engine)
            wait_for_status(engine.port, 403)
            upstream.go.set()
            assert [stream.event(), stream.event()] == [b"data: 2", b""]


def test_nginx_ends_with_its_last_stream_when_asked_to_quit(tmp_path: Path) -> None:
    with (
        act() as upstream,
        run_exported("nginx", policy_of(upstream.port), tmp_path / "run") as engine,
        contextlib.closing(Talk(engine.port)) as stream,
    ):
        stream.send(b"stream").head()
        assert stream.event() == b"data: 1"
        engine.process.send_signal(signal.SIGQUIT)
        while is_open(engine.port):
            pass
        upstream.go.set()
        assert [stream.event(), stream.event()] == [b"data: 2", b""]
        stream.close()
        assert engine.process.wait(DEADLINE) == 0


def test_another_envoy_takes_over_and_the_streams_of_the_first_go_on(tmp_path: Path) -> None:
    with act() as upstream:
        policy = policy_of(upstream.port)
        first = run_exported(
            "envoy",
            policy,
            tmp_path / "run",
            more=["--use-dynamic-base-id", "--base-id-path", str(tmp_path / "id")],
        )
        with first as engine, contextlib.closing(Talk(engine.port)) as stream:
            stream.send(b"stream").head()
            assert stream.event() == b"data: 1"
            engine.write(deny_all(policy))
            base = ["--base-id", (tmp_path / "id").read_text().strip()]
            command = command_of("envoy", engine.where, [*base, "--restart-epoch", "1"])
            with run_engine(command, engine.port, tmp_path / "log"):
                wait_for_status(engine.port, 403)
                upstream.go.set()
                assert [stream.event(), stream.event()] == [b"data: 2", b""]


def wait_for_status(port: int, wanted: int) -> None:
    """Call until another policy is at work."""
    deadline = time.monotonic() + DEADLINE
    status = 0
    while status != wanted:
        assert time.monotonic() < deadline, status
        with contextlib.closing(Talk(port)) as talk:
            status = talk.send().head().status


@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_that_is_terminated_cuts_its_streams(kind: str, tmp_path: Path) -> None:
    with (
        act() as upstream,
        run_exported(kind, policy_of(upstream.port), tmp_path / "run") as engine,
        contextlib.closing(Talk(engine.port)) as stream,
    ):
        stream.send(b"stream").head()
        assert stream.event() == b"data: 1"
        engine.process.terminate()
        with pytest.raises((EOFError, ConnectionError)):
            stream.event()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), DEADLINE).close()
    except ConnectionError:
        return False
    return True


def test_an_nginx_that_cannot_tell_two_lines_from_one_serves_nothing(tmp_path: Path) -> None:
    program = find_old_nginx()
    if program is None:
        pytest.skip("the system has no nginx of its own")
    shown = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    is_old = tuple(map(int, shown.split("/")[1].split(".")[:2])) < (1, 23)
    with act() as upstream:
        policy = policy_of(upstream.port)
        with (
            run_exported("nginx", policy, tmp_path / "run", program=program) as engine,
            contextlib.closing(Talk(engine.port)) as talk,
        ):
            assert talk.send().head().status == (503 if is_old else 200)
