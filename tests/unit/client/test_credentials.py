"""Headers that say who calls: fetched once by those who need them, never in the way of others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from mcpost.client.credentials import Credentials, check_headers
from mcpost.errors import Denied, UsageError
from tests.helpers.loop import run

REFUSED = Denied("no", status=401)


class Provider:
    """Gives tokens with a number, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def __call__(self) -> Mapping[str, str]:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        return {"Authorization": f"Bearer {number}"}


def test_calls_that_need_a_token_at_the_same_time_share_one_fetch() -> None:
    async def main() -> None:
        provider = Provider()
        credentials = Credentials(provider)
        calls = [asyncio.ensure_future(credentials.headers()) for _ in range(5)]
        await asyncio.sleep(0)
        calls[0].cancel()
        provider.may_answer.set()

        results = await asyncio.gather(*calls[1:])

        assert provider.asked == 1
        assert results == [{"Authorization": "Bearer 1"}] * 4

    run(main())


def test_who_has_a_token_does_not_wait_for_the_next_one() -> None:
    async def main() -> None:
        provider = Provider()
        provider.may_answer.set()
        credentials = Credentials(provider)
        await credentials.headers()
        provider.may_answer.clear()
        slow = asyncio.ensure_future(credentials.headers())
        await asyncio.sleep(0)

        assert await credentials.headers() == {"Authorization": "Bearer 1"}
        slow.cancel()
        await credentials.close()

    run(main())


def test_after_a_401_the_provider_is_asked_once_more() -> None:
    async def main() -> None:
        provider = Provider()
        provider.may_answer.set()
        credentials = Credentials(provider)
        used = await credentials.headers()

        again = await asyncio.gather(*(credentials.refused(REFUSED, used) for _ in range(3)))

        assert again == [True, True, True]
        assert provider.asked == 2

    run(main())


def test_a_provider_that_says_the_same_again_is_not_asked_for_ever() -> None:
    async def main() -> None:
        credentials = Credentials(lambda: {"Authorization": "Bearer x"})
        used = await credentials.headers()

        assert await credentials.refused(REFUSED, used) is False
        assert await credentials.refused(Denied("no", status=403), used) is False

    run(main())


def test_the_failure_of_a_provider_is_that_of_the_call() -> None:
    async def fail() -> Mapping[str, str]:
        raise OSError("no keyring")

    async def main() -> None:
        with pytest.raises(OSError, match="keyring"):
            await Credentials(fail).headers()

    run(main())


@pytest.mark.req("F-05/C")
def test_another_token_is_another_context() -> None:
    async def main() -> None:
        tokens = iter("ab")
        credentials = Credentials(lambda: {"Authorization": next(tokens)}, {"X-Tenant": "t"})
        before = credentials.context
        await credentials.headers()
        first = credentials.context
        await credentials.headers()

        assert before is None
        assert first not in (None, credentials.context)
        assert Credentials(None).context != Credentials(None, {"Authorization": "a"}).context

    run(main())


@pytest.mark.parametrize(
    "headers",
    [{"A": "x\r\nB: y"}, {"A": "x\0"}, {"A b": "x"}, {"": "x"}, {"A": "日"}],
    ids=["a line break", "NUL", "a blank in the name", "no name", "no Latin-1"],
)
def test_a_header_that_would_garble_the_request_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        check_headers(headers)
