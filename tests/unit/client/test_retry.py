"""When a call is made once more."""

from __future__ import annotations

import pytest

from mcpost.client import Retry
from mcpost.client.retry import NEVER, WHEN_BUSY, read_retry
from mcpost.errors import (
    BadReply,
    Busy,
    ConnectFailed,
    ConnectionLost,
    Denied,
    Timeout,
    TransportError,
    UsageError,
)

PLAIN = Retry(attempts=4, backoff=1.0, jitter=0.0)


@pytest.mark.req("T-14/C")
@pytest.mark.parametrize(
    ("error", "usual", "by_default"),
    [
        pytest.param(ConnectFailed("x"), True, False, id="no connection"),
        pytest.param(ConnectionLost("x", sent="yes"), True, False, id="lost"),
        pytest.param(Busy("x", status=503, retry_after=0.0), True, True, id="503 with a time"),
        pytest.param(Busy("x", status=503), True, False, id="503 without"),
        pytest.param(Busy("x", status=429), True, True, id="429"),
        pytest.param(BadReply("x", status=502), True, False, id="502"),
        pytest.param(BadReply("x", status=400), False, False, id="400"),
        pytest.param(Denied("x", status=401), False, False, id="401"),
        pytest.param(Timeout("idle", 1.0), False, False, id="silence"),
        pytest.param(Timeout("total", 1.0), False, False, id="the deadline"),
        pytest.param(Timeout("connect", 1.0, sent="no"), True, False, id="no connection in time"),
    ],
)
def test_what_is_repeated(error: TransportError, usual: bool, by_default: bool) -> None:
    assert (Retry().wait(error, 1) is not None) is usual
    assert (WHEN_BUSY.wait(error, 1) is not None) is by_default
    assert NEVER.wait(error, 1) is None


def test_waits_double_up_to_their_bound_and_the_attempts_end() -> None:
    policy = Retry(attempts=9, backoff=1.0, max_backoff=5.0, jitter=0.0)
    error = ConnectionLost("x")

    assert [policy.wait(error, made) for made in (1, 2, 3, 4, 9)] == [1.0, 2.0, 4.0, 5.0, None]


def test_chance_takes_a_share_of_the_wait() -> None:
    policy = Retry(backoff=1.0, jitter=0.5)

    assert policy.wait(ConnectionLost("x"), 1, lambda: 1.0) == 0.5
    assert policy.wait(ConnectionLost("x"), 1, lambda: 0.0) == 1.0


def test_the_wait_is_never_shorter_than_the_server_says() -> None:
    assert PLAIN.wait(Busy("x", status=429, retry_after=30.0), 1) == 31.0


@pytest.mark.parametrize(
    ("value", "attempts"), [(True, 3), (False, 1), (0, 1), (5, 5), (None, 4), (PLAIN, 4)]
)
def test_a_number_or_a_word_makes_a_policy(value: Retry | int | bool | None, attempts: int) -> None:
    assert read_retry(value, PLAIN).attempts == attempts


def test_a_policy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError):
        Retry(attempts=0)
