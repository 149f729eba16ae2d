"""What a newcomer writes first, from other packages' habits, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from mcpost import Server
from mcpost.errors import UsageError


@pytest.mark.parametrize("decorator", ["tool", "prompt"])
def test_a_name_without_its_word_is_told_how_to_be_given(decorator: str) -> None:
    server: Any = Server("shop")

    with pytest.raises(UsageError, match="options go by name, as in name='find'"):
        getattr(server, decorator)("find")


def test_a_resource_without_a_uri_is_told_that_it_has_one() -> None:
    server: Any = Server("shop")

    with pytest.raises(UsageError, match="a resource has a URI"):

        @server.resource
        def books() -> str:
            return "all"
