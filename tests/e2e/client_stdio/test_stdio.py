"""The client and a server on stdio that is its child."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcpost.client import Client, Command
from mcpost.client.stdio import StdioTransport
from mcpost.errors import (
    BadReply,
    ConnectFailed,
    ConnectionLost,
    RpcError,
    Timeout,
    TooLarge,
)
from mcpost.limits import ClientLimits, WireLimits
from mcpost.types import Reconnected, ResourceUpdated, ToolsChanged
from tests.helpers.children import child_processes, is_running
from tests.helpers.loop import run
from tests.helpers.until import until

PEER = str(Path(__file__).with_name("peer.py"))
PATIENT = ClientLimits(probe_timeout=30, exit_timeout=30)
MUTE = ClientLimits(probe_timeout=0.3, exit_timeout=30)
"""For a server that does not answer what it does not know."""
ENDING = ClientLimits(probe_timeout=30, exit_timeout=0.3)
"""For a server that does not end."""


def command(*faults: str) -> list[str]:
    return [sys.executable, "-S", "-E", PEER, *faults]


def with_client(
    work: Callable[[Client], Awaitable[Any]],
    *faults: str,
    limits: ClientLimits = PATIENT,
    **more: Any,
) -> Any:
    async def main() -> Any:
        async with Client(more.pop("target", command(*faults)), limits=limits, **more) as client:
            return await work(client)

    before = child_processes()
    result = run(main())
    assert child_processes() == before
    return result


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def assert_ended(pid: int) -> None:
    """Who is killed is gone soon, and not always at once."""
    run(until(lambda: not is_running(pid)))


async def words(client: Client, name: str, **arguments: Any) -> str:
    return (await client.call(name, arguments)).text


@pytest.mark.req("V-04/C")
@pytest.mark.parametrize(
    ("faults", "version"),
    [((), "2026-07-28"), (("legacy",), "2025-06-18"), (("mute",), "2025-06-18")],
)
def test_any_error_that_is_not_of_this_revision_and_silence_lead_to_a_handshake(
    faults: tuple[str, ...], version: str
) -> None:
    async def work(client: Client) -> list[str]:
        return (await client.discover()).supported_versions

    limits = MUTE if "mute" in faults else PATIENT
    assert with_client(work, *faults, limits=limits) == [version]


@pytest.mark.req("V-04/C")
def test_an_error_of_this_revision_is_no_reason_to_fall_back() -> None:
    async def work(client: Client) -> int:
        with pytest.raises(RpcError) as caught:
            await client.discover()
        return caught.value.code

    assert with_client(work, "newer") == -32022


def test_a_command_may_be_one_text_as_a_shell_would_split_it() -> None:
    async def work(client: Client) -> str:
        return await words(client, "pid")

    assert int(with_client(work, target=shlex.join(command())))


def test_the_environment_is_what_every_program_needs_and_what_the_command_adds() -> None:
    async def work(client: Client) -> dict[str, str]:
        found: dict[str, str] = json.loads(await words(client, "environment"))
        return found

    os.environ["SECRET_OF_THE_PARENT"] = "1"
    try:
        found = with_client(work, target=Command(command(), env={"TOKEN": "t"}))
    finally:
        del os.environ["SECRET_OF_THE_PARENT"]
    assert found["TOKEN"] == "t"
    assert "PATH" in found
    assert "SECRET_OF_THE_PARENT" not in found


@pytest.mark.req("I-01/C")
def test_calls_share_the_channel_and_hear_their_own_progress() -> None:
    async def work(client: Client) -> Any:
        heard: list[list[float]] = [[], [], []]
        await asyncio.gather(
            *(
                client.call("progress", progress=lambda p, own=own: own.append(p.progress))
                for own in heard
            )
        )
        return heard

    assert with_client(work) == [[1, 2, 3]] * 3


@pytest.mark.req("P-02/C")
def test_cancelling_a_call_tells_the_server_its_id() -> None:
    async def work(client: Client) -> list[int]:
        handle = client.start("silent")
        await asyncio.sleep(0)
        await words(client, "pid")
        handle.task.cancel()
        await asyncio.wait([handle.task])
        found: list[int] = json.loads(await words(client, "cancelled"))
        return found

    assert len(with_client(work)) == 1


@pytest.mark.req("P-03/C")
def test_a_silent_server_ends_in_a_timeout_and_the_server_is_told() -> None:
    async def work(client: Client) -> list[int]:
        await words(client, "pid")
        with pytest.raises(Timeout):
            await client.call("silent", timeout=0.5)
        found: list[int] = json.loads(await words(client, "cancelled"))
        return found

    assert len(with_client(work)) == 1


@pytest.mark.req("I-04/C")
def test_a_line_of_many_mebibytes_passes() -> None:
    async def work(client: Client) -> int:
        return len(await words(client, "large", size=8 * 1024 * 1024))

    assert with_client(work) == 8 * 1024 * 1024


@pytest.mark.req("I-04/C")
def test_a_line_over_the_limit_fails_its_request_and_the_next_one_passes() -> None:
    async def main() -> str:
        transport = StdioTransport(
            Command(command()),
            inputs=Client("http://x/")._caller._inputs,
            limits=PATIENT,
            wire_limits=WireLimits(max_stdio_line=100_000),
        )
        async with Client(command(), wrap=lambda _: transport) as client:
            with pytest.raises(TooLarge):
                await words(client, "large", size=200_000)
            return await words(client, "large", size=3)

    assert run(main()) == "xxx"


@pytest.mark.req("I-04/C")
def test_what_is_no_message_is_passed_over_and_a_broken_answer_is_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(client: Client) -> str:
        with pytest.raises(BadReply, match="no message"):
            await words(client, "broken")
        return await words(client, "garbage")

    assert with_client(work) == "after garbage"
    assert "this is no message" in caplog.text


@pytest.mark.req("I-03/C")
@pytest.mark.parametrize("name", ["die", "torn"])
def test_a_call_whose_server_dies_fails_at_once_and_the_next_one_has_a_new_server(
    name: str,
) -> None:
    async def work(client: Client) -> None:
        first = await words(client, "pid")
        with pytest.raises(ConnectionLost, match=r"exited|closed its output") as caught:
            await client.call(name)
        assert caught.value.sent == "maybe"
        assert await words(client, "pid") != first

    with_client(work)


@pytest.mark.req("I-03/C")
def test_a_call_that_may_be_repeated_survives_its_server(tmp_path: Path) -> None:
    async def work(client: Client) -> str:
        arguments = {"mark": str(tmp_path / "mark")}
        return (await client.call("die_once", arguments, retry=3)).text

    assert with_client(work) == "alive"


@pytest.mark.req("I-03/C", "P-04/C")
def test_a_listen_is_opened_again_after_its_server_died() -> None:
    async def work(client: Client) -> list[Any]:
        async with client.listen(tools=True) as changes:
            found = [await anext(changes)]
            with pytest.raises(ConnectionLost):
                await client.call("die")
            found += [await anext(changes), await anext(changes)]
        return found

    first, again, second = with_client(work)
    assert (first, second) == (ToolsChanged(), ToolsChanged())
    assert isinstance(again, Reconnected)


def test_what_cannot_be_started_and_what_ends_at_once_say_why() -> None:
    async def work(client: Client) -> str:
        with pytest.raises(ConnectFailed) as caught:
            await client.tools()
        return str(caught.value)

    assert "No such file" in with_client(work, target=["/nowhere/server"])
    said = with_client(work, "dead")
    assert "exited with status 1" in said
    assert "no licence" in said


def test_what_the_server_writes_to_standard_error_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mcpost.client.child")

    async def work(client: Client) -> None:
        with pytest.raises(ConnectionLost, match="I give up"):
            await client.call("die")

    with_client(work)
    assert "I give up" in caplog.text


@pytest.mark.req("I-02/C")
def test_a_server_that_minds_neither_its_end_of_input_nor_sigterm_is_killed() -> None:
    async def work(client: Client) -> int:
        return int(await words(client, "pid"))

    assert_ended(with_client(work, "stubborn", limits=ENDING))


@pytest.mark.req("I-02/C")
def test_what_the_server_has_started_ends_with_it() -> None:
    async def work(client: Client) -> int:
        return int(await words(client, "grandchild"))

    assert_ended(with_client(work, limits=ENDING))


@pytest.mark.req("I-02/C")
def test_leaving_with_calls_under_way_ends_them_and_the_server() -> None:
    async def main() -> BaseException | None:
        client = Client(command(), limits=PATIENT)
        handle = client.start("silent")
        await until(lambda: client.open_connections == 1)
        await client.close()
        return handle.task.exception()

    assert isinstance(run(main()), ConnectionLost)


@pytest.mark.req("L-03/C")
def test_a_server_of_an_earlier_revision_asks_and_gets_its_answer() -> None:
    async def work(client: Client) -> Any:
        return json.loads(await words(client, "ask"))

    answer = with_client(work, "legacy", on_elicit=lambda question: {"name": "Ada"})
    assert answer == {"action": "accept", "content": {"name": "Ada"}}


@pytest.mark.req("L-04/C")
def test_a_listen_on_an_earlier_revision_subscribes_to_its_resources() -> None:
    async def work(client: Client) -> Any:
        async with client.listen(uris=["a://b"]) as changes:
            return await anext(changes)

    assert with_client(work, "legacy") == ResourceUpdated("a://b")


@pytest.mark.req("I-02/C", "I-03/C")
def test_two_hundred_children_leave_nothing_behind() -> None:
    async def main() -> int:
        descriptors = 0
        for count in range(200):
            async with Client(command(), limits=PATIENT) as client:
                await client.call("pid")
            if count == 9:
                descriptors = open_descriptors()
        return open_descriptors() - descriptors

    before = child_processes()
    assert run(main(), debug=False) <= 0
    assert child_processes() == before
