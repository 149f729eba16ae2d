"""What a client makes of a server that does everything wrong: the table of docs/client.md."""

from __future__ import annotations

import asyncio
import gzip
import socket
import tracemalloc
from typing import Any, NamedTuple

import pytest

from mcpost.client import Client
from mcpost.errors import (
    BadReply,
    Busy,
    ConnectionLost,
    Denied,
    McpostError,
    RpcError,
    Timeout,
    TooLarge,
)
from mcpost.limits import ClientLimits
from tests.helpers.hostile import (
    CLOSE,
    HALF_CLOSE,
    HANG,
    RESET,
    Fault,
    Forever,
    Hostile,
    chunk,
    event,
    failure,
    good,
    head,
    note,
    page,
    stream,
)
from tests.helpers.loop import run

LIMITS = ClientLimits(
    max_answer=200_000,
    max_event=100_000,
    max_head=16_384,
    max_events=500,
    max_redirects=2,
)

JSON = "Content-Type: application/json"
SSE = "Content-Type: text/event-stream"
CHUNKED = "Transfer-Encoding: chunked"


SILENCE = {
    # How long the faulty call waits where its end is that nothing more comes. What is to be heard
    # before that has the same time, so it is long enough for a machine that is busy.
    "head": {"timeout": 0.25},
    "idle": {"timeout": 1.0},
    "total": {"max_timeout": 1.0},
}


class Outcome(NamedTuple):
    """What the caller of a faulty call gets; `None` is a good result."""

    error: type[McpostError] | None
    sent: str = ""
    says: str = ""
    phase: str = ""
    status: int | None = None
    code: int | None = None


LOST_MAYBE = Outcome(ConnectionLost, sent="maybe")
LOST_YES = Outcome(ConnectionLost, sent="yes")
FINE = Outcome(None)


def bad(says: str, status: int | None = None) -> Outcome:
    return Outcome(BadReply, sent="yes", says=says, status=status)


PROGRESS = note("notifications/progress", progressToken=1, progress=1)
BOMB = gzip.compress(b" " * 10_000_000)

FAULTS: dict[str, tuple[Fault, Outcome]] = {
    # Nothing, or no HTTP.
    "silence": (lambda i: [HANG], Outcome(Timeout, "maybe", phase="head")),
    "closed without an answer": (lambda i: [CLOSE], LOST_MAYBE),
    "reset without an answer": (lambda i: [RESET], LOST_MAYBE),
    "half-closed without an answer": (lambda i: [HALF_CLOSE, HANG], LOST_MAYBE),
    "not HTTP": (lambda i: [b"SSH-2.0-OpenSSH_9\r\n", HANG], bad("not HTTP/1.1")),
    "NUL bytes": (lambda i: [b"\0" * 100, HANG], bad("not HTTP/1.1")),
    # Heads.
    "a head byte by byte, for ever": (
        lambda i: [b"HTTP/1.1 200 OK\r\nA: ", Forever(b"a", 0.02)],
        Outcome(Timeout, "maybe", phase="head"),
    ),
    "a head cut": (lambda i: [b"HTTP/1.1 200 OK\r\nContent-", CLOSE], LOST_MAYBE),
    "headers without end": (
        lambda i: [b"HTTP/1.1 200 OK\r\n", Forever(b"A: b\r\n" * 100)],
        Outcome(TooLarge, says="ClientLimits.max_head"),
    ),
    "a header line without end": (
        lambda i: [b"HTTP/1.1 200 OK\r\nA: ", Forever(b"a" * 1000)],
        Outcome(TooLarge, says="ClientLimits.max_head"),
    ),
    "interim answers without end": (
        lambda i: [Forever(b"HTTP/1.1 100 Continue\r\n\r\n")],
        bad("interim"),
    ),
    "a switch of protocols": (
        lambda i: [head(101, "Upgrade: x", "Connection: upgrade"), HANG],
        bad("protocols"),
    ),
    "bare line feeds": (
        lambda i: [b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", HANG],
        bad("not HTTP"),
    ),
    # Framing.
    "two lengths": (
        lambda i: [head(200, JSON, "Content-Length: 2", "Content-Length: 3"), HANG],
        bad("not HTTP"),
    ),
    "length and chunks": (
        lambda i: [head(200, JSON, "Content-Length: 2", CHUNKED), HANG],
        bad("not HTTP"),
    ),
    "a negative length": (lambda i: [head(200, JSON, "Content-Length: -2"), HANG], bad("not HTTP")),
    "a transfer coding": (
        lambda i: [head(200, JSON, "Transfer-Encoding: gzip"), HANG],
        bad("transfer coding"),
    ),
    "a bad chunk size": (
        lambda i: [head(200, JSON, CHUNKED) + b"zz\r\n{}\r\n", HANG],
        bad("not HTTP"),
    ),
    "trailers without end": (
        lambda i: [head(200, JSON, CHUNKED) + b"0\r\n", Forever(b"A: b\r\n" * 100)],
        Outcome(TooLarge, says="ClientLimits.max_head"),
    ),
    "bytes after the answer": (
        lambda i: [page(good(i)) + b"HTTP/1.1 200 OK\r\n", HANG],
        bad("follow"),
    ),
    # JSON.
    "a body cut": (lambda i: [page(good(i))[:-3], CLOSE], LOST_YES),
    "a body cut by a reset": (lambda i: [page(good(i))[:-3], 0.05, RESET], LOST_YES),
    "a chunked body cut": (lambda i: [head(200, JSON, CHUNKED) + chunk(b"{"), CLOSE], LOST_YES),
    "a body in drops, for ever": (
        lambda i: [head(200, JSON, CHUNKED), Forever(chunk(b" "), 0.02)],
        Outcome(Timeout, "yes", phase="total"),
    ),
    "a body too long, and it says so": (
        lambda i: [head(200, JSON, "Content-Length: 200001"), HANG],
        Outcome(TooLarge, says="ClientLimits.max_answer"),
    ),
    "a body without end": (
        lambda i: [head(200, JSON, CHUNKED), Forever(chunk(b" " * 10_000))],
        Outcome(TooLarge, says="ClientLimits.max_answer"),
    ),
    "a body of single bytes": (
        lambda i: [head(200, JSON, CHUNKED), chunk(b" ") * 200_001, HANG],
        Outcome(TooLarge, says="ClientLimits.max_answer"),
    ),
    "no JSON": (lambda i: [page(b"hello")], bad("no JSON-RPC")),
    "NaN": (lambda i: [page(b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}')], bad("no JSON-RPC")),
    "an empty body": (lambda i: [page(b"")], bad("no JSON-RPC")),
    "bytes that are no UTF-8": (
        lambda i: [page(good(i).replace(b"complete", b"\xff"))],
        bad("no JSON-RPC"),
    ),
    "nested ten thousand deep": (lambda i: [page(b"[" * 10_000)], bad("no JSON-RPC")),
    "a batch": (lambda i: [page(b"[" + good(i) + b"]")], bad("no JSON-RPC")),
    "a notification for an answer": (lambda i: [page(PROGRESS)], bad("no response")),
    "another id": (lambda i: [page(good(i + 1))], bad("to request")),
    "the id as text": (lambda i: [page(good(str(i)))], bad("to request")),
    "a result without an id": (lambda i: [page(good(None))], bad("no JSON-RPC")),
    "an error without an id": (
        lambda i: [page(failure(None, -32600), status=400)],
        Outcome(RpcError, code=-32600),
    ),
    "a byte order mark": (lambda i: [page(b"\xef\xbb\xbf" + good(i))], FINE),
    "an unknown resultType": (lambda i: [page(good(i, resultType="task"))], bad("resultType")),
    "no resultType": (lambda i: [page(good(i).replace(b'"resultType"', b'"x"'))], FINE),
    "input asked for without saying which": (
        lambda i: [page(good(i, resultType="input_required"))],
        bad("asks for input"),
    ),
    # What it says of the body.
    "compressed, unasked": (
        lambda i: [page(gzip.compress(good(i)), "Content-Encoding: gzip")],
        bad("compressed"),
    ),
    "a gzip bomb": (lambda i: [page(BOMB, "Content-Encoding: gzip")], bad("compressed")),
    "HTML": (lambda i: [page(b"<h1>Hi</h1>", kind="text/html")], bad("text/html", 200)),
    "no media type": (lambda i: [head(200, "Content-Length: 2") + b"{}"], bad("no media type")),
    "HTML without end": (
        lambda i: [head(200, "Content-Type: text/html", CHUNKED), Forever(chunk(b"<p>" * 100))],
        bad("text/html"),
    ),
    "JSON in capital letters": (
        lambda i: [page(good(i), kind='APPLICATION/Json; charset="utf-8"')],
        FINE,
    ),
    # Statuses.
    "202": (lambda i: [head(202, "Content-Length: 0")], bad("notification", 202)),
    "204": (lambda i: [head(204)], bad("notification", 204)),
    "301": (lambda i: [head(301, "Location: /other", "Content-Length: 0")], bad("GET", 301)),
    "307 to another origin": (
        lambda i: [head(307, "Location: http://127.0.0.1:1/mcp", "Content-Length: 0")],
        bad("another origin", 307),
    ),
    "307 in a ring": (
        lambda i: [head(307, "Location: /mcp", "Content-Length: 0")],
        bad("too many", 307),
    ),
    "308 in a ring": (
        lambda i: [head(308, "Location: /mcp", "Content-Length: 0")],
        bad("too many", 308),
    ),
    "308 to nowhere": (lambda i: [head(308, "Content-Length: 0")], bad("nowhere", 308)),
    "401": (
        lambda i: [page(b"", "WWW-Authenticate: Bearer", status=401)],
        Outcome(Denied, "no", "credentials", status=401),
    ),
    "403": (
        lambda i: [page(b"no", status=403, kind="text/plain")],
        Outcome(Denied, "no", status=403),
    ),
    "406": (lambda i: [page(b"", status=406)], bad("", 406)),
    "407": (lambda i: [page(b"", status=407)], bad("", 407)),
    "413": (lambda i: [page(b"<html>", status=413, kind="text/html")], bad("text/html", 413)),
    "429": (lambda i: [head(429, "Content-Length: 0")], Outcome(Busy, "maybe", status=429)),
    "503 and a time too far off": (
        lambda i: [head(503, "Retry-After: 6000", "Content-Length: 0")],
        Outcome(Busy, "no", status=503),
    ),
    "502 with HTML": (
        lambda i: [page(b"<html>", status=502, kind="text/html")],
        bad("text/html", 502),
    ),
    "a result with status 500": (
        lambda i: [page(good(i), status=500)],
        bad("status of an error", 500),
    ),
    "an error with status 500": (
        lambda i: [page(failure(i, -32603), status=500)],
        Outcome(RpcError, code=-32603, status=500),
    ),
    "-32601 with 404": (
        lambda i: [page(failure(i, -32601), status=404)],
        Outcome(RpcError, code=-32601),
    ),
    "-32020": (lambda i: [page(failure(i, -32020), status=400)], Outcome(RpcError, code=-32020)),
    "-32021": (lambda i: [page(failure(i, -32021), status=400)], Outcome(RpcError, code=-32021)),
    "-32022 and versions of another time": (
        lambda i: [page(failure(i, -32022, {"supported": ["2030-01-01"]}), status=400)],
        Outcome(RpcError, says="2030-01-01", code=-32022),
    ),
    "-32022 again and again": (
        lambda i: [page(failure(i, -32022, {"supported": ["2026-07-28"]}), status=400)],
        Outcome(RpcError, code=-32022),
    ),
    # Streams.
    "a stream that ends without a response": (lambda i: [stream(event(PROGRESS)), CLOSE], LOST_YES),
    "a stream cut in an event": (lambda i: [stream(event(good(i))[:-9]), CLOSE], LOST_YES),
    "a stream whose last event lacks its blank line": (
        lambda i: [stream(event(good(i))[:-1]), CLOSE],
        LOST_YES,
    ),
    "a stream cut by a reset": (lambda i: [stream(event(PROGRESS)), 0.05, RESET], LOST_YES),
    "a chunked stream cut": (
        lambda i: [head(200, SSE, CHUNKED) + chunk(event(PROGRESS)), CLOSE],
        LOST_YES,
    ),
    "comments without end": (
        lambda i: [stream(), Forever(b":\n\n", 0.02)],
        Outcome(Timeout, "yes", phase="total"),
    ),
    "blank lines without end": (
        lambda i: [stream(), Forever(b"\n" * 1000, 0.01)],
        Outcome(Timeout, "yes", phase="total"),
    ),
    "silence after an event": (
        lambda i: [stream(event(PROGRESS)), HANG],
        Outcome(Timeout, "yes", phase="idle"),
    ),
    "an event that is no JSON": (
        lambda i: [stream(event(b"hello")), HANG],
        bad("event is no JSON"),
    ),
    "NUL in an event": (lambda i: [stream(event(b"\0")), HANG], bad("event is no JSON")),
    "a response to another request": (
        lambda i: [stream(event(good(i + 1))), HANG],
        bad("to request"),
    ),
    "a request on the stream": (
        lambda i: [stream(event(b'{"jsonrpc":"2.0","id":9,"method":"ping"}')), HANG],
        bad("carries a request"),
    ),
    "a second response": (lambda i: [stream(event(good(i)), event(good(i))), CLOSE], FINE),
    "no end after the response": (lambda i: [stream(event(good(i))), HANG], FINE),
    "comments without end after the response": (
        lambda i: [stream(event(good(i))), Forever(b":\n" * 100)],
        FINE,
    ),
    "a line without end": (
        lambda i: [stream(b"data: "), Forever(b"a" * 10_000)],
        Outcome(TooLarge, says="ClientLimits.max_event"),
    ),
    "an event without end": (
        lambda i: [stream(), Forever(b"data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n" * 100)],
        Outcome(TooLarge, says="ClientLimits.max_event"),
    ),
    "a flood of events": (lambda i: [stream(), Forever(event(PROGRESS) * 50)], bad("max_events")),
    "a byte order mark before the first event": (
        lambda i: [stream(b"\xef\xbb\xbf" + event(good(i))), HANG],
        FINE,
    ),
    "events of other types, and without data": (
        lambda i: [stream(b"event: x\ndata: hello\n\nid: 7\ndata:\n\n" + event(good(i))), HANG],
        FINE,
    ),
    "lone carriage returns": (
        lambda i: [stream(b":\r\r" + event(good(i)).replace(b"\n", b"\r") + b"\r"), CLOSE],
        FINE,
    ),
    "a stream with the status of an error": (
        lambda i: [head(500, SSE) + event(good(i)), CLOSE],
        bad("event-stream", 500),
    ),
}


async def suffer(fault: Fault, phase: str = "") -> dict[str, object]:
    """Make a faulty call beside good ones; gives its result or raises its error."""
    async with (
        Hostile(fault) as server,
        Client(server.url, limits=LIMITS, era="modern", cache=False) as client,
    ):
        await client.discover()
        faulty = asyncio.ensure_future(
            client.request("tools/call", {"name": "fault"}, **SILENCE.get(phase, {}))
        )
        await client.discover()
        await asyncio.wait([faulty])
        # One fault hurts one call: the client works on.
        await client.discover()
        assert not client.calls_under_way
        return faulty.result()


@pytest.mark.req("T-09/C", "T-11/C", "T-13/C", "T-14/C", "J-01/C", "J-02/C", "P-03/C")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_becomes_its_one_outcome_and_hurts_one_call(name: str) -> None:
    fault, outcome = FAULTS[name]
    if outcome.error is None:
        assert "content" in run(suffer(fault))
        return

    with pytest.raises(outcome.error) as caught:
        run(suffer(fault, outcome.phase))

    raised = caught.value
    assert outcome.says in str(raised)
    assert outcome.sent in ("", getattr(raised, "sent", ""))
    assert outcome.phase in ("", getattr(raised, "phase", ""))
    assert outcome.status in (None, getattr(raised, "status", None))
    assert outcome.code in (None, getattr(raised, "code", None))


@pytest.mark.parametrize(
    "name",
    [
        "headers without end",
        "a body without end",
        "a gzip bomb",
        "a line without end",
        "an event without end",
        "comments without end after the response",
        "trailers without end",
    ],
)
def test_what_never_ends_takes_little_memory(name: str) -> None:
    fault, outcome = FAULTS[name]
    tracemalloc.start()
    try:
        if outcome.error is None:
            run(suffer(fault), debug=False)
        else:
            with pytest.raises(outcome.error):
                run(suffer(fault), debug=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 12 * 1024 * 1024


@pytest.mark.req("P-03/C")
def test_a_server_that_reads_nothing_ends_at_the_deadline() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            async with Client(url, limits=LIMITS, era="modern") as client:
                big = {"arguments": {"a": "x" * 8_000_000}}
                with pytest.raises(Timeout, match="head"):
                    await client.request("tools/call", big, timeout=0.25)

    run(main())


@pytest.mark.req("P-03/C")
def test_a_refused_connection_says_that_nothing_was_sent() -> None:
    async def main() -> None:
        async with Client("http://127.0.0.1:1/mcp") as client:
            with pytest.raises(McpostError) as caught:
                await client.discover()
            assert getattr(caught.value, "sent", "") == "no"

    run(main())


@pytest.mark.req("T-14/C")
@pytest.mark.parametrize("ending", [CLOSE, RESET], ids=["closed", "reset"])
def test_an_answer_cut_at_any_byte_is_lost_and_says_how_far_it_came(ending: Any) -> None:
    whole = page(good(1))
    body = whole.index(b"\r\n\r\n") + 4

    async def main() -> None:
        cuts = iter(range(len(whole)))
        # A reset overtakes bytes that were not read yet; given time, it does not.
        answer = lambda message: [whole[: next(cuts)], 0.002, ending]  # noqa: E731
        async with Hostile(answer=answer) as server, Client(server.url, era="modern") as client:
            for cut in range(len(whole)):
                with pytest.raises(ConnectionLost) as caught:
                    await client.request("tools/call", {"name": "x"})
                assert caught.value.sent == ("maybe" if cut < body else "yes")
            assert client.open_connections == 0

    run(main())
