"""A bound that nothing could keep is refused where it is set (mcpost.limits)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mcpost import limits
from mcpost.errors import UsageError

SETS: list[Any] = [getattr(limits, name) for name in limits.__all__]
BOUNDS = [(each, field.name) for each in SETS for field in fields(each)]


@pytest.mark.parametrize(
    ("bounds", "name"), BOUNDS, ids=lambda value: getattr(value, "__name__", value)
)
@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), "10", None, True])
def test_no_bound_is_negative_or_no_number(bounds: Any, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{bounds.__name__}.{name} is "):
        bounds(**{name: value})


@pytest.mark.parametrize(
    ("bounds", "name"), BOUNDS, ids=lambda value: getattr(value, "__name__", value)
)
def test_what_is_counted_is_whole(bounds: Any, name: str) -> None:
    default = getattr(bounds(), name)

    assert getattr(bounds(**{name: default}), name) == default
    if type(default) is int:
        with pytest.raises(UsageError):
            bounds(**{name: 1.5})
    else:
        assert getattr(bounds(**{name: 1}), name) == 1
        assert getattr(bounds(**{name: float("inf")}), name) == float("inf")


def test_times_may_be_nothing_and_sizes_may_not() -> None:
    assert limits.ServerLimits(keep_alive=0, drain_grace=0, max_queued=0).keep_alive == 0
    for name in ("max_body", "threads", "page_size", "progress_rate"):
        with pytest.raises(UsageError, match=name):
            limits.ServerLimits(**{name: 0})
