"""Quotas."""

from __future__ import annotations

from mcpost.gateway.policy import Cap, Rate
from mcpost.gateway.quota import Charge, Exceeded, Quotas, Ticket

RATE = Rate(requests=2, per=10, burst=2)


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    quotas = Quotas()
    charges = (Charge("r", "ann", RATE),)
    assert [type(quotas.charge(charges, now)) for now in (0, 0, 0)] == [Ticket, Ticket, Exceeded]
    assert quotas.charge(charges, 1.0) == Exceeded("r", 4)
    assert isinstance(quotas.charge(charges, 5.0), Ticket)
    assert isinstance(quotas.charge(charges, 5.0), Exceeded)


def test_each_key_has_its_own_bucket() -> None:
    quotas = Quotas()
    for key in ("ann", "bob"):
        assert isinstance(quotas.charge((Charge("r", key, RATE),) * 1, 0), Ticket)


def test_a_clock_that_steps_back_gives_nothing() -> None:
    quotas = Quotas()
    charges = (Charge("r", "", Rate(1, 1, 1)),)
    quotas.charge(charges, 100)
    assert isinstance(quotas.charge(charges, 0), Exceeded)


def test_a_cap_counts_calls_until_they_are_released() -> None:
    quotas = Quotas()
    charges = (Charge("c", "", Cap(1)),)
    ticket = quotas.charge(charges, 0)
    assert isinstance(ticket, Ticket)
    assert quotas.charge(charges, 0) == Exceeded("c", 1)
    quotas.release(ticket)
    assert isinstance(quotas.charge(charges, 0), Ticket)


def test_a_call_over_one_quota_is_charged_to_none() -> None:
    quotas = Quotas()
    full = Charge("full", "", Rate(1, 1000, 1))
    quotas.charge((full,), 0)
    both = (Charge("cap", "", Cap(1)), Charge("r", "", RATE), full)
    assert quotas.charge(both, 0) == Exceeded("full", 1000)
    assert isinstance(quotas.charge(both[:2], 0), Ticket)


def test_the_number_of_keys_is_bounded() -> None:
    quotas = Quotas(max_keys=3)
    for number in range(10):
        quotas.charge((Charge("r", str(number), RATE),), 0)
    assert len(quotas) == 3
