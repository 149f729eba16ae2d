"""docs/http11.md tells the bounds and the differences as they are."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from mcpost.http11.limits import ConnectionLimits, MessageLimits
from tests.property.http11.test_against_h11 import LOOSER, STRICTER, STRICTER_RESPONSES

PAGE = (Path(__file__).parents[3] / "docs" / "http11.md").read_text("utf-8")


@pytest.mark.parametrize("reason", sorted({*STRICTER, *STRICTER_RESPONSES, *LOOSER}))
def test_each_difference_to_h11_is_explained(reason: str) -> None:
    assert f"`{reason}`" in PAGE


@pytest.mark.parametrize("limits", [MessageLimits(), ConnectionLimits()])
def test_each_bound_is_listed_with_its_default(limits: MessageLimits | ConnectionLimits) -> None:
    for field in fields(limits):
        value = getattr(limits, field.name)
        if field.name not in {"message", "half_close"}:
            assert f"| `{field.name}` | {value} |" in PAGE
