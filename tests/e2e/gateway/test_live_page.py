"""The admin listener's live page, as a person meets it: in a real browser."""

from __future__ import annotations

import asyncio
import http.client
from pathlib import Path

import pytest

from mcpost.gateway.policy_read import read_policy
from tests.e2e.gateway.gateways import allow_all, opened, small
from tests.helpers.browser import Page, browsing
from tests.helpers.http import body, call, lines, listen, post
from tests.helpers.loop import run
from tests.helpers.raw import connect
from tests.helpers.until import DEADLINE, until

POLICY = """
default = "deny"
upstream = "here"
[[listeners]]
name = "main"
bind = "127.0.0.1:0"
[upstreams.here]
endpoints = ["http://127.0.0.1:{port}/mcp"]
[[rules]]
id = "adding"
action = "allow"
method = ["tools/call", "subscriptions/listen"]
name = "add"
[[rules]]
id = "listening"
action = "allow"
method = "subscriptions/listen"
"""

MARKUP = "<img src=x onerror=document.title='run'>"


async def text(page: Page, part: str) -> str:
    return str(await page.value(f"document.getElementById('{part}').innerText"))


@pytest.mark.req("H-11/S")
def test_requests_are_seen_as_they_flow(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            small() as port,
            opened(read_policy(POLICY.format(port=port))) as gateway,
            browsing(tmp_path / "profile") as page,
            connect(gateway.port) as raw,
            connect(gateway.port) as stream,
        ):
            await page.look()
            await page.open(f"http://127.0.0.1:{gateway.admin}/")
            await page.until("document.getElementById('state').textContent === 'live'")

            await raw.ask(call("add", {"a": 1, "b": 2}))
            await raw.ask(call("drop", {}))
            twice = [*lines("tools/call", MARKUP), (b"mcp-name", b"add")]
            await raw.ask(post(body("tools/call", {"name": "add"}), twice))
            await raw.ask(call(MARKUP, {}))
            await page.until("document.querySelectorAll('#rows tr').length === 4")

            rows = await text(page, "rows")
            assert "allow\ttools/call\tadd\tadding\there\t200" in rows
            assert "deny\ttools/call\tdrop\tdefault\t\u2013\t403" in rows
            assert "stands twice" in await text(page, "refused")
            assert "tools/call add" in await text(page, "tools")
            assert await text(page, "refusals") == "1"
            # What a caller named is text.
            assert MARKUP in rows
            assert await page.value("document.images.length") == 0
            assert await page.value("document.title") == "mcpost gateway"

            await stream.send(listen(toolsListChanged=True))
            await stream.head()
            await page.until("document.getElementById('streams').textContent === '1'")
            assert page.told == []

    run(scenario())


def test_the_page_is_used_by_keyboard_and_keeps_to_its_width(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            small() as port,
            opened(allow_all(port)) as gateway,
            browsing(tmp_path / "profile") as page,
            connect(gateway.port) as raw,
        ):
            await page.look(width=360, height=700, dark=True)
            await page.open(f"http://127.0.0.1:{gateway.admin}/")
            await page.until("document.getElementById('state').textContent === 'live'")
            await raw.ask(call("add", {"a": 1, "b": 2}))
            await raw.ask(call("nothing", {}))
            await page.until("document.querySelectorAll('#rows tr').length === 2")
            # Tables scroll by themselves, the page does not.
            assert await page.value("document.documentElement.scrollWidth <= innerWidth")
            background = "getComputedStyle(document.body).backgroundColor"
            assert await page.value(background) == "rgb(22, 23, 26)"
            await page.look(width=360, height=700)
            assert await page.value(background) == "rgb(251, 250, 247)"

            await page.press("/")
            assert await page.value("document.activeElement.id") == "filter"
            for key in "nothing":
                await page.press(key)
            assert (
                await page.value("document.querySelectorAll('#rows tr:not([hidden])').length") == 1
            )
            await page.value("document.activeElement.blur()")
            await page.press("p")
            assert await page.value("document.getElementById('pause').ariaPressed") == "true"
            await raw.ask(call("add", {"a": 1, "b": 2}))
            await page.until(
                "document.getElementById('state').textContent.endsWith('1 requests since')"
            )
            assert await page.value("document.querySelectorAll('#rows tr').length") == 2
            await page.press("p")
            assert await text(page, "state") == "live"
            # Each control and each table has a name, and what scrolls can be reached by keyboard.
            unnamed = "[...document.querySelectorAll('button, input, table')].filter((each) =>"
            unnamed += " !(each.textContent.trim() || each.labels?.length)).length"
            assert await page.value(unnamed) == 0
            assert (
                await page.value("document.querySelectorAll('.scroll:not([tabindex])').length") == 0
            )
            assert await page.value("document.querySelectorAll('th:not([scope])').length") == 0
            assert len(await page.shoot()) > 1000
            assert page.told == []

    run(scenario())


def ask(port: int, path: str, host: str, method: str = "GET") -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request(method, path, headers={"Host": host})
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found
    finally:
        connection.close()


def test_a_page_of_elsewhere_learns_nothing() -> None:
    async def scenario() -> list[int]:
        async with small() as port, opened(allow_all(port)) as gateway:
            return [
                (await asyncio.to_thread(ask, gateway.admin, path, host))[0]
                for host in ("evil.example", "localhost.evil.example", f"x:{gateway.admin}", "")
                for path in ("/", "/events")
            ]

    assert set(run(scenario())) == {403}


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:9464"])
def test_an_address_or_localhost_is_of_here(host: str) -> None:
    async def scenario() -> tuple[int, dict[str, str]]:
        async with small() as port, opened(allow_all(port)) as gateway:
            return await asyncio.to_thread(ask, gateway.admin, "/", host)

    status, headers = run(scenario())

    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")


def test_nothing_is_kept_while_nobody_watches_and_a_closed_page_is_forgotten() -> None:
    async def scenario() -> None:
        async with small() as port, opened(allow_all(port)) as gateway:
            live = gateway.running.live
            async with connect(gateway.port) as raw, connect(gateway.admin) as page:
                await raw.ask(call("add", {"a": 1, "b": 2}))
                assert not live._rows
                await page.send(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert await page.head() == 200
                await until(lambda: live.is_watched)
                await raw.ask(call("add", {"a": 1, "b": 2}))
                async with asyncio.timeout(DEADLINE):
                    while not (await page.event())["requests"]:
                        pass
            await until(lambda: not live.is_watched)

    run(scenario())


def test_one_page_too_many_is_sent_away() -> None:
    async def scenario() -> tuple[int, int]:
        async with small() as port, opened(allow_all(port)) as gateway:
            pages = [await asyncio.open_connection("127.0.0.1", gateway.admin) for _ in range(16)]
            for reader, writer in pages:
                writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n")
            refused, _ = await asyncio.to_thread(ask, gateway.admin, "/events", "localhost")
            head, _ = await asyncio.to_thread(ask, gateway.admin, "/events", "localhost", "HEAD")
            for _, writer in pages:
                writer.close()
            await until(lambda: not gateway.running.live.is_watched)
            return refused, head

    assert run(scenario()) == (503, 200)
