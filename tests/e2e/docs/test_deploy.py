"""The configurations of docs/deploy.md, in the proxies they are for, where those are installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpost import Client
from tests.e2e.cli.commands import LIBRARY, ROOT, first_line, started
from tests.e2e.gateway.engines import find_nginx
from tests.helpers.loop import run
from tests.helpers.ports import free_port
from tests.helpers.until import DEADLINE

PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")
COMMANDS = {
    "nginx": ["nginx", "-e", "stderr", "-g", "daemon off; pid nginx.pid;", "-p", ".", "-c", "conf"],
    "yaml": ["envoy", "--use-dynamic-base-id", "-l", "error", "-c", "conf.yaml"],
    "caddy": ["caddy", "run", "--adapter", "caddyfile", "--config", "conf"],
}
OWN_FOLDERS = "access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f;"
OWN_FOLDERS += " uwsgi_temp_path u; scgi_temp_path s;"


async def connect(port: int) -> None:
    """Connect once, as soon as the proxy listens."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(0.02)  # another's process tells nobody when it listens


@contextlib.contextmanager
def proxied(language: str, upstream: str, folder: Path) -> Iterator[str]:
    """Run the page's configuration, with ports of our own; gives the URL."""
    command = COMMANDS[language]
    program = find_nginx() if command[0] == "nginx" else shutil.which(command[0])
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    port, served = free_port(), upstream.split(":")[2].split("/")[0]
    text = found[1].replace("8080", str(port)).replace("8000", served)
    text = text.replace("http {", "http {" + OWN_FOLDERS)
    (folder / command[-1]).write_text(text, "utf-8")
    process = subprocess.Popen([program, *command[1:]], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        run(connect(port), DEADLINE)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(DEADLINE)


async def leave_a_call(url: str) -> None:
    async with Client(url) as client:

        async def state() -> str:
            runs = json.loads((await client.read("library://runs")).text)
            return str(runs[0]["state"])

        heard = asyncio.Event()
        call = asyncio.create_task(
            client.call("reindex", {"steps": 1000, "delay": 0.05}, progress=lambda _: heard.set())
        )
        await heard.wait()
        assert await state() == "runs"
        call.cancel()
        while await state() != "cancelled":
            pass  # each look is a request of its own; the deadline is that of the run


@pytest.mark.req("T-12/S", "T-15/S")
@pytest.mark.parametrize("language", COMMANDS)
def test_progress_comes_through_and_who_leaves_ends_the_call(language: str, tmp_path: Path) -> None:
    with (
        started("serve", LIBRARY, "--port", "0") as process,
        proxied(language, first_line(process), tmp_path) as url,
    ):
        run(leave_a_call(url), DEADLINE)
