"""A call ends in time, whatever it waits for."""

from __future__ import annotations

import asyncio

import pytest

from mcpost.client.attempt import Attempt
from mcpost.client.deadline import Deadline
from mcpost.errors import ConnectionLost, Timeout
from mcpost.limits import ClientLimits
from tests.helpers.loop import run_by_the_clock as run

pytestmark = pytest.mark.req("P-03/C")

LIMITS = ClientLimits(connect_timeout=0.05)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_signs_of_life_move_the_idle_limit_but_not_the_hard_one() -> None:
    async def main() -> None:
        async def live() -> None:
            attempt = Attempt(now())
            with Deadline(LIMITS, 0.05, 0.2) as deadline:
                deadline.watch(attempt)
                attempt.sending(now())
                for _ in range(100):
                    await asyncio.sleep(0.01)
                    attempt.heard(now())

        with pytest.raises(Timeout) as caught:
            await live()
        assert (caught.value.phase, caught.value.seconds) == ("total", 0.2)

    run(main())


@pytest.mark.parametrize(
    ("steps", "phase", "sent"), [(0, "connect", "no"), (1, "head", "maybe"), (2, "idle", "yes")]
)
def test_silence_is_named_after_what_was_waited_for(steps: int, phase: str, sent: str) -> None:
    async def main() -> None:
        async def wait() -> None:
            attempt = Attempt(now())
            with Deadline(LIMITS, 0.05, 5.0) as deadline:
                deadline.watch(attempt)
                if steps:
                    attempt.sending(now())
                if steps > 1:
                    attempt.heard(now())
                await asyncio.sleep(5)

        with pytest.raises(Timeout) as caught:
            await wait()
        assert (caught.value.phase, caught.value.sent) == (phase, sent)

    run(main())


def test_the_wait_for_a_person_is_not_the_servers_silence() -> None:
    async def main() -> None:
        attempt = Attempt(now())
        attempt.paused = True
        with Deadline(LIMITS, 0.02, 5.0) as deadline:
            deadline.watch(attempt)
            await asyncio.sleep(0.15)

    run(main())


def test_a_listen_may_be_silent_for_ever_unless_it_has_given_signs() -> None:
    async def main(comments: int) -> None:
        attempt = Attempt(now())
        with Deadline(LIMITS, 0.02, 0.05) as deadline:
            deadline.watch(attempt)
            attempt.sending(now())
            attempt.heard(now())
            attempt.comments = comments
            deadline.relax()
            await asyncio.sleep(0.2)

    run(main(0))
    with pytest.raises(Timeout, match="idle"):
        run(main(1))


def test_a_cancellation_of_the_caller_stays_one() -> None:
    async def main() -> None:
        async def call() -> None:
            with Deadline(LIMITS, 5.0, 5.0):
                await asyncio.sleep(5)

        task = asyncio.ensure_future(call())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


def test_a_closed_client_ends_its_calls() -> None:
    async def main() -> None:
        async def wait() -> None:
            with Deadline(LIMITS, 5.0, 5.0) as deadline:
                asyncio.get_running_loop().call_soon(deadline.close)
                await asyncio.sleep(5)

        with pytest.raises(ConnectionLost, match="closed"):
            await wait()

    run(main())
