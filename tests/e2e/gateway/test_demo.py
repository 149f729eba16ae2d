"""The spoof, shown: `mcpost gateway demo`."""

from __future__ import annotations

import pytest

from mcpost.cli.gateway_demo import show
from tests.helpers.loop import run


@pytest.mark.req("H-13/G")
def test_a_gateway_stops_the_honest_call_and_the_server_that_compares_the_spoofed_one() -> None:
    found = [(row.server, row.header, row.status, row.error, row.holds) for row in run(show())]

    assert found == [
        ("trusts its headers", "place_hold", 403, "-32600", 0),
        ("trusts its headers", "search", 200, "", 1),
        ("compares", "place_hold", 403, "-32600", 0),
        ("compares", "search", 400, "-32020", 0),
    ]
