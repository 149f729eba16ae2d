"""`mcpost serve` from its start to its end."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import pytest

from tests.e2e.cli.commands import LIBRARY, first_line, mcpost, started
from tests.helpers.until import DEADLINE

SLOW = """
import asyncio
from mcpost import Server

server = Server("slow")


@server.tool
async def wait(seconds: float) -> str:
    print("called", flush=True)
    await asyncio.sleep(seconds)
    return "done"
"""


@pytest.mark.req("T-04/S")
def test_port_0_announces_the_url_of_a_loopback_port() -> None:
    with started("serve", LIBRARY, "--port", "0") as process:
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/mcp", first_line(process))

        assert found
        socket.create_connection(("127.0.0.1", int(found[1])), DEADLINE).close()


def test_the_path_is_the_one_that_is_given() -> None:
    with started("serve", LIBRARY, "--port", "0", "--path", "/a/b") as process:
        url = first_line(process)
        assert url.endswith("/a/b")
        assert mcpost("discover", url).returncode == 0
        assert mcpost("discover", url.removesuffix("/b")).returncode == 1


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_signal_ends_an_idle_server_with_status_0(sent: signal.Signals, workers: str) -> None:
    with started("serve", LIBRARY, "--port", "0", "--workers", workers) as process:
        url = first_line(process)
        # Once a call is answered, whoever answers is ready for signals.
        assert mcpost("discover", url).returncode == 0
        process.send_signal(sent)

        assert process.wait(DEADLINE) == 0
        assert process.communicate(timeout=DEADLINE)[0] == ""


def test_a_running_call_is_answered_before_the_end(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW, "utf-8")
    with started("serve", "slow.py", "--port", "0", cwd=tmp_path) as process:
        url = first_line(process)
        with started("call", url, "wait", "seconds=0.5") as call:
            assert first_line(process) == "called"
            process.send_signal(signal.SIGTERM)

            assert call.communicate(timeout=DEADLINE) == ("done\n", "")
            assert process.wait(DEADLINE) == 0


def test_ctrl_c_cancels_a_call_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW, "utf-8")
    with started("serve", "slow.py", "--port", "0", cwd=tmp_path) as process:
        url = first_line(process)
        with started("call", url, "wait", "seconds=60") as call:
            assert first_line(process) == "called"
            call.send_signal(signal.SIGINT)

            said = call.communicate(timeout=DEADLINE)[1]
            assert (call.returncode, said) == (130, "mcpost: cancelled; the server was told\n")


def test_an_address_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = mcpost("serve", LIBRARY, "--port", str(port))

    assert f"127.0.0.1:{port} cannot be bound" in ended.stderr
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)


@pytest.mark.req("T-04/S")
def test_a_server_open_to_the_network_warns() -> None:
    with started("serve", LIBRARY, "--host", "0.0.0.0", "--port", "0") as process:
        assert first_line(process).startswith("http://localhost:")
        process.terminate()

        assert "is open to the network" in process.communicate(timeout=DEADLINE)[1]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--origin", "app.example.com"], id="an origin without a scheme"),
        pytest.param(["--path", "mcp"], id="a path without a slash"),
        pytest.param(["--legacy", "on", "--workers", "2"], id="sessions in several processes"),
        pytest.param(["--port", "70000"], id="no port"),
        pytest.param(["--workers", "0"], id="no worker"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_status_2(options: list[str]) -> None:
    ended = mcpost("serve", LIBRARY, "--port", "0", *options)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Traceback" not in ended.stderr
