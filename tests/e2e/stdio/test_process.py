"""`mcpost serve … --stdio` as a process: its streams, its lines, its end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.e2e.stdio.talk import (
    DEADLINE,
    Talk,
    call,
    command,
    environment,
    talking,
    text,
)
from tests.helpers.http import body
from tests.helpers.legacy import cancel, initialize
from tests.helpers.loop import run
from tests.helpers.serving import ROOT

MIB = 1024 * 1024


def talk(use: Callable[[Talk], Awaitable[None]], *options: str) -> None:
    """Start a server, use it, and see that it ends well."""

    async def check() -> None:
        async with talking(*options) as server:
            await use(server)

    run(check())


def descriptors() -> int:
    """How many descriptors this process has open; 0 where there is no /proc."""
    return len(list(Path("/proc/self/fd").glob("*")))


@pytest.mark.req("I-01/S")
def test_nothing_but_the_protocol_reaches_standard_output() -> None:
    async def check(server: Talk) -> None:
        assert await server.call("shout") == "done"

        status, lines, errors = await server.end()
        assert (status, lines) == (0, [])
        assert sorted(errors.split("\n")) == [
            "",
            "from C",
            "from a child",
            "printed",
            "printed at import",
            "written",
            "written at import",
        ]

    talk(check)


@pytest.mark.req("I-01/S")
def test_children_and_handlers_do_not_read_the_protocol() -> None:
    async def check(server: Talk) -> None:
        await server.send(call("read", id=1), call("add", id=2, a=1, b=2))
        answers = {each["id"]: text(each) for each in [await server.line(), await server.line()]}

        assert answers == {1: "('', b'')", 2: "3"}

    talk(check)


@pytest.mark.req("I-04/S")
def test_a_line_of_many_mib_passes_both_ways() -> None:
    async def check(server: Talk) -> None:
        assert len(await server.call("large", size=48 * MIB)) == 48 * MIB
        assert await server.call("length", text="y" * (48 * MIB)) == str(48 * MIB)

    talk(check)


@pytest.mark.req("I-04/S")
def test_a_line_over_64_mib_is_an_error_and_the_next_one_passes() -> None:
    async def check(server: Talk) -> None:
        async def send() -> None:
            await server.send(call("length", id=1, text="y" * (64 * MIB)))
            await server.send(call("add", id=2, a=1, b=2))

        sending = asyncio.create_task(send())
        refused = await server.line()
        assert (refused["id"], refused["error"]["code"]) == (1, -32700)
        assert text(await server.line()) == "3"
        await sending

    talk(check)


@pytest.mark.req("I-01/S", "I-04/S")
def test_carriage_returns_and_blank_lines_are_no_matter() -> None:
    async def check(server: Talk) -> None:
        await server.send(b"", b"  ", call("add", a=1, b=2) + b"\r", b"\r")

        assert text(await server.line()) == "3"

    talk(check)


@pytest.mark.req("I-04/S")
def test_a_line_that_is_torn_by_the_end_is_answered() -> None:
    async def check(server: Talk) -> None:
        assert server.process.stdin is not None
        server.process.stdin.write(call("add", a=1, b=2)[:-1])

        status, lines, _ = await server.end()
        assert status == 0
        assert [(each["id"], each["error"]["code"]) for each in lines] == [(7, -32700)]

    talk(check)


@pytest.mark.req("I-02/S")
def test_the_last_line_needs_no_line_end() -> None:
    async def check(server: Talk) -> None:
        assert server.process.stdin is not None
        server.process.stdin.write(call("add", a=1, b=2))

        status, lines, _ = await server.end()
        assert (status, [text(each) for each in lines]) == (0, ["3"])

    talk(check)


@pytest.mark.req("I-02/S")
def test_the_end_of_the_input_is_the_end_of_the_process() -> None:
    async def check(server: Talk) -> None:
        await server.send(call("wait", seconds=0.2))

        status, lines, _ = await server.end()
        assert (status, [text(each) for each in lines]) == (0, ["waited"])

    talk(check)


@pytest.mark.req("I-02/S")
def test_a_call_that_goes_on_is_cancelled_after_the_grace() -> None:
    async def check(server: Talk) -> None:
        await server.send(call("wait", seconds=60))

        status, lines, errors = await server.end()
        assert status == 0
        assert lines[0]["error"]["message"] == "the server is shutting down"
        assert "cancelled" in errors

    talk(check, "--drain-grace", "0.2")


@pytest.mark.req("I-02/S")
@pytest.mark.parametrize("name", ["block", "stubborn"])
def test_a_thread_that_never_ends_keeps_no_process_alive(name: str) -> None:
    async def check(server: Talk) -> None:
        await server.send(call(name, **({"seconds": 60} if name == "block" else {})))

        _, lines, _ = await server.end()
        assert lines[0]["error"]["code"] == -32603

    talk(check, "--drain-grace", "0.1")


@pytest.mark.req("I-02/S", "P-05/S")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(sent: signal.Signals) -> None:
    async def check(server: Talk) -> None:
        filtered = {"notifications": {"toolsListChanged": True}}
        await server.send(body("subscriptions/listen", filtered, id=1))
        await server.send(call("wait", id=2, seconds=0.3))
        assert "acknowledged" in (await server.line())["method"]
        while await server.error_line() != "waiting":
            pass
        server.process.send_signal(sent)

        closing, cancelled, waited = [await server.line() for _ in range(3)]
        assert closing["result"]["resultType"] == "complete"
        assert cancelled["params"]["requestId"] == 1
        assert text(waited) == "waited"
        assert await server.line() is None
        assert await asyncio.wait_for(server.process.wait(), DEADLINE) == 0

    talk(check)


@pytest.mark.req("P-02/S")
def test_a_cancelled_call_stops_and_the_channel_goes_on() -> None:
    async def check(server: Talk) -> None:
        await server.send(call("wait", id=1, seconds=60))
        while await server.error_line() != "waiting":
            pass
        await server.send(json.dumps(cancel(1)).encode())
        assert await server.error_line() == "cancelled"
        await server.send(call("add", id=2, a=1, b=2))

        assert (await server.line())["id"] == 2
        assert (await server.end())[1] == []

    talk(check)


@pytest.mark.req("I-02/S")
def test_a_client_that_reads_no_more_ends_the_process() -> None:
    async def check(server: Talk) -> None:
        transport = server.process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
        transport.close()
        await server.send(call("add", a=1, b=2))

        assert await asyncio.wait_for(server.process.wait(), DEADLINE) == 0

    talk(check)


@pytest.mark.req("I-01/S")
def test_a_reader_that_is_slow_loses_nothing() -> None:
    async def check(server: Talk) -> None:
        requests = [call("large", id=id, size=100_000) for id in range(100)]
        sending = asyncio.create_task(server.send(*requests))
        await asyncio.sleep(0.2)
        found = [await server.line() for _ in requests]
        await sending

        assert sorted(each["id"] for each in found) == list(range(100))

    talk(check)


@pytest.mark.req("I-01/S")
def test_plain_files_do_as_well(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(call("add", a=1, b=2) + b"\n" + call("add", id=8, a=3, b=4))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        done = subprocess.run(
            command(),
            stdin=source,
            stdout=sink,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            timeout=DEADLINE,
            check=True,
        )

    lines = (tmp_path / "out").read_text().splitlines()
    assert sorted(text(json.loads(line)) for line in lines) == ["3", "7"]
    assert b"printed at import" in done.stderr


@pytest.mark.req("I-01/S")
def test_a_socket_does_as_well() -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        subprocess.Popen(
            command(),
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment(),
        ) as process,
    ):
        theirs.close()
        ours.settimeout(DEADLINE)
        ours.sendall(call("add", a=1, b=2) + b"\n")
        answer = json.loads(ours.makefile("rb").readline())
        ours.shutdown(socket.SHUT_WR)

        assert text(answer) == "3"
        assert process.wait(DEADLINE) == 0


@pytest.mark.req("I-02/S")
def test_without_standard_input_it_says_so() -> None:
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        timeout=DEADLINE,
        check=False,
    )

    assert (closed.returncode, closed.stdout) == (2, "")
    assert "standard input or output is closed" in closed.stderr


@pytest.mark.req("V-05/S")
def test_legacy_off_serves_the_current_revision_alone() -> None:
    async def check(server: Talk) -> None:
        await server.send(json.dumps(initialize()).encode(), call("add", a=1, b=2))

        assert (await server.line())["error"]["code"] == -32022
        assert text(await server.line()) == "3"

    talk(check, "--legacy", "off")


@pytest.mark.req("I-02/S")
def test_many_starts_and_ends_leave_nothing_behind() -> None:
    async def check() -> None:
        before = descriptors()
        for _ in range(5):
            async with talking() as server:
                assert await server.call("add", a=1, b=2) == "3"
                assert (await server.end())[0] == 0

        # The loop's own watcher of children may be new.
        assert descriptors() <= before + 2

    run(check())
