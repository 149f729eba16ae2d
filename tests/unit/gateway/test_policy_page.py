"""The page of the policy says every key that the parser knows."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from mcpost.errors import PolicyError
from mcpost.gateway.policy_read import read_policy
from mcpost.gateway.policy_table import Table

PAGE = (Path(__file__).parents[3] / "docs" / "gateway-policy.md").read_text("utf-8")
# What the page says in a sentence alone.
MORE = """
[[listeners]]
bind = "127.0.0.1:1"
[upstreams.a]
endpoints = ["http://a/"]
[[rules]]
action = "allow"
param.Region = { present = true }
rate = { requests = 1 }
concurrent = { limit = 1 }
"""


def test_every_key_that_the_parser_asks_for_is_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: set[tuple[str, str]] = set()
    take = Table.take

    def note(table: Table, key: str) -> Any:
        asked.add((re.sub(r"\[\d+\]|(?<=upstreams\.).*", "", table.place), key))
        return take(table, key)

    monkeypatch.setattr(Table, "take", note)
    for text in (*re.findall(r"```toml\n(.*?)```", PAGE, re.S), MORE):
        with contextlib.suppress(PolicyError):  # a part of a policy
            read_policy(text)

    top = {key for place, key in asked if not place}
    assert {"listeners", "upstreams", "rules", "default", "upstream", "legacy", "verify"} <= top
    assert {"rules", "listeners", "upstreams.", "rules.rate", "rules.concurrent"} <= {
        place for place, _ in asked
    }
    missing = [
        (place, key) for place, key in sorted(asked) if not re.search(rf"(?<!\w){key}(?!\w)", PAGE)
    ]
    assert missing == []


def test_every_table_that_the_parser_reads_is_shown_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table that is shown is read key by key above."""
    known: set[str] = set()
    take = Table.take

    def note(table: Table, key: str) -> Any:
        if not table.place:
            known.add(key)
        return take(table, key)

    monkeypatch.setattr(Table, "take", note)
    read_policy(MORE)
    shown = "\n".join(re.findall(r"```toml\n(.*?)```", PAGE, re.S))
    for key in known:
        assert re.search(rf"^(?:\[+)?{key}[\].]|^{key} = ", shown, re.M), key
