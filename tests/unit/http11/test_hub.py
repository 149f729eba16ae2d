"""Deadlines are met within a tick, cost nothing to move away, and leave no timer behind."""

from __future__ import annotations

from mcpost.http11.hub import NEVER, Hub
from tests.unit.http11.memory import Loop


class Waiter:
    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.slot = -1
        self.expired: list[float] = []

    def expire(self, now: float) -> None:
        self.expired.append(now)
        self.deadline = NEVER


def made(tick: float = 0.5) -> tuple[Loop, Hub]:
    loop = Loop()
    return loop, Hub(loop, tick)  # type: ignore[arg-type]  # all that it calls


def test_a_deadline_is_met_within_two_ticks_and_never_before() -> None:
    for after in (0.0, 0.1, 0.5, 0.9, 3.3, 100.0, 127.0, 128.0, 1000.0):
        loop, hub = made()
        loop.pass_time(0.3)
        waiter = Waiter(loop.now + after)
        hub.watch(waiter)

        loop.pass_time(after - 0.001)
        assert waiter.expired == []
        loop.pass_time(1.001)
        assert len(waiter.expired) == 1


def test_a_deadline_that_moves_away_is_met_later() -> None:
    loop, hub = made()
    waiter = Waiter(loop.now + 2)
    hub.watch(waiter)

    loop.pass_time(1)
    waiter.deadline = loop.now + 5
    loop.pass_time(4.9)
    assert waiter.expired == []
    loop.pass_time(1.1)

    assert len(waiter.expired) == 1


def test_a_deadline_that_moves_nearer_is_told() -> None:
    loop, hub = made()
    waiter = Waiter(loop.now + 60)
    hub.watch(waiter)

    waiter.deadline = loop.now + 1
    hub.watch(waiter)
    loop.pass_time(2)

    assert len(waiter.expired) == 1


def test_whoever_is_forgotten_does_not_expire_and_no_timer_is_left() -> None:
    loop, hub = made()
    waiter = Waiter(loop.now + 1)
    hub.watch(waiter)

    hub.forget(waiter)
    hub.forget(waiter)
    loop.pass_time(10)

    assert waiter.expired == []
    assert loop.timers == []


def test_one_that_expires_may_forget_another_of_the_same_moment() -> None:
    loop, hub = made()
    waiters: list[Waiter] = []

    class Jealous(Waiter):
        def expire(self, now: float) -> None:
            super().expire(now)
            for other in waiters:
                if other is not self:
                    hub.forget(other)

    waiters += [Jealous(loop.now + 1), Jealous(loop.now + 1)]
    for waiter in waiters:
        hub.watch(waiter)
    loop.pass_time(5)

    assert sorted(len(each.expired) for each in waiters) == [0, 1]


def test_a_turn_ends_once_for_all_that_ask() -> None:
    loop, hub = made()
    told: list[int] = []

    class Turned:
        def __init__(self, number: int) -> None:
            self.number = number

        def turn_over(self) -> None:
            told.append(self.number)

    for number in range(3):
        hub.after_turn(Turned(number))
    assert len(loop.ready) == 1
    loop.turn()
    loop.turn()

    assert told == [0, 1, 2]
