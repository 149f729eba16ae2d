"""The gateway as a process: its signals, and TLS at both sides."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
from dataclasses import replace
from pathlib import Path

from mcpost.gateway.policy import Upstream
from mcpost.gateway.run import Running
from mcpost.gateway.settings import GatewaySettings
from tests.e2e.gateway.gateways import allow_all, small
from tests.helpers.http import call, listen
from tests.helpers.loop import run
from tests.helpers.raw import Raw, connect
from tests.helpers.serving import child
from tests.unit.http11.sockets import make_certificate

POLICY = """
default = "{default}"
[[listeners]]
name = "main"
bind = "127.0.0.1:0"
[upstreams.here]
endpoints = ["http://127.0.0.1:{port}/mcp"]
"""


def test_sighup_reads_the_policy_again_and_sigterm_ends_the_process(tmp_path: Path) -> None:
    file, log = tmp_path / "policy.toml", tmp_path / "access.jsonl"
    command = ("-m", "mcpost.cli.main", "gateway", str(file), "--access-log", str(log))

    async def scenario() -> tuple[list[int], int, str]:
        async with small() as port:
            file.write_text(POLICY.format(default="allow", port=port))
            async with (
                child("-c", START, *command[2:], *QUIET, "--watch", "0") as gateway,
                connect(gateway.port) as stream,
                connect(gateway.port) as raw,
            ):
                await stream.send(listen(toolsListChanged=True))
                await stream.head()
                await stream.event()
                found = [await status(raw)]
                file.write_text("default = 'perhaps'")
                gateway.tell(signal.SIGHUP)
                assert gateway.process.stderr is not None
                told = (await gateway.process.stderr.readline()).decode()
                found.append(await status(raw))
                file.write_text(POLICY.format(default="deny", port=port))
                gateway.tell(signal.SIGHUP)
                while (last := await status(raw)) == 200:
                    pass
                found.append(last)
                gateway.tell()
                return found, await gateway.end(), told

    found, code, told = run(scenario(), debug=False)

    assert (found, code) == ([200, 200, 403], 0)
    assert "the policy stays as it was" in told
    assert json.loads(log.read_text().splitlines()[0])["status"] == 200


QUIET = ("--admin", "", "--drain-grace", "0.2")
START = "import sys; from mcpost.cli.main import main; sys.argv[0] = 'mcpost'; main()"


async def status(raw: Raw) -> int:
    await raw.ask(call("add", {"a": 1, "b": 2}))
    return raw.status


def test_a_changed_file_is_read_again_and_no_stream_ends(tmp_path: Path) -> None:
    file, other = tmp_path / "policy.toml", tmp_path / "policy.new"
    command = ("gateway", str(file), *QUIET, "--watch", "0.02")

    async def scenario() -> tuple[list[int], str, bool]:
        async with small() as port:
            file.write_text(POLICY.format(default="allow", port=port))
            async with (
                child("-c", START, *command) as gateway,
                connect(gateway.port) as stream,
                connect(gateway.port) as raw,
            ):
                await stream.send(listen(toolsListChanged=True))
                await stream.head()
                await stream.event()
                found = [await status(raw)]
                # In place, and broken: it is told, and changes nothing.
                file.write_text("default = 'perhaps'")
                assert gateway.process.stderr is not None
                told = (await gateway.process.stderr.readline()).decode()
                found.append(await status(raw))
                # As most editors save: another file under the same name.
                other.write_text(POLICY.format(default="deny", port=port))
                other.replace(file)
                while (last := await status(raw)) == 200:
                    pass
                found.append(last)
                open_still = stream.is_open
                gateway.tell()
                await gateway.end()
                return found, told, open_still

    found, told, open_still = run(scenario(), debug=False)

    assert found == [200, 200, 403]
    assert "the policy stays as it was" in told
    assert open_still


def test_both_sides_may_be_encrypted(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(certificate, key)
    theirs = ssl.create_default_context(cafile=str(certificate))

    async def scenario() -> tuple[str, int]:
        async with small(tls=ours) as port:
            upstream = Upstream("here", (f"https://localhost:{port}/mcp",))
            policy = replace(allow_all(port), upstreams={"here": upstream})
            running = Running(lambda: policy, GatewaySettings(upstream_tls=theirs), tls=ours)
            await running.open()
            streams = await asyncio.open_connection(
                "localhost", running.sockets["main"].port, ssl=theirs
            )
            raw = Raw(*streams)
            try:
                url = running.url(running.listeners[0])
                return url.partition(":")[0], await status(raw)
            finally:
                await raw.close()
                await running.close()

    assert run(scenario()) == ("https", 200)
