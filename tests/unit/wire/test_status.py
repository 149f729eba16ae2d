"""The one table of statuses."""

from __future__ import annotations

import pytest

from mcpost.errors import (
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    ParseError,
    UnsupportedVersion,
    WireError,
)
from mcpost.wire.status import status_of

TABLE = [
    (ParseError("x"), 400, 200),
    (InvalidRequest("x"), 400, 200),
    (MethodNotFound("x"), 404, 200),
    (InvalidParams("x"), 400, 200),
    (InternalError("x"), 500, 200),
    (HeaderMismatch("x"), 400, 200),
    (MissingCapability("x", {"roots": {}}), 400, 400),
    (UnsupportedVersion("x", ()), 400, 200),
]


@pytest.mark.req("T-07/S", "T-17/S", "T-18/S", "T-19/S", "T-20/S", "T-21/S", "T-23/S", "J-03/S")
@pytest.mark.parametrize(
    ("error", "refused", "by_handler"), TABLE, ids=lambda value: type(value).__name__
)
def test_an_error_has_the_status_of_who_found_it(
    error: WireError, refused: int, by_handler: int
) -> None:
    assert status_of(error) == refused
    assert status_of(error, by_handler=True) == by_handler


def test_a_code_that_is_not_in_the_table_is_a_bad_request() -> None:
    class Other(WireError):
        code = -1

    assert status_of(Other("x")) == 400
