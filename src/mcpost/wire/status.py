"""From an outcome to its HTTP status: the one table.

Spec: streamable-http (T-07, T-08, T-16 to T-23); basic/index, "Error Codes".
"""

from __future__ import annotations

from typing import Final

from mcpost.errors import MissingCapability, WireError

__all__ = ("ACCEPTED", "OK", "status_of")

OK: Final = 200
ACCEPTED: Final = 202

_REFUSED: Final = {
    -32700: 400,
    -32600: 400,
    -32601: 404,
    -32602: 400,
    -32603: 500,
    -32020: 400,
    -32021: 400,
    -32022: 400,
}


def status_of(error: WireError, *, by_handler: bool = False) -> int:
    """Tell the HTTP status that carries an error.

    Args:
        error: The error.
        by_handler: Whether a served method came to it, rather than the protocol's own checks.

    Returns:
        The table's status for a protocol error. What a served method came to is 200, because the
        exchange itself went well (T-23); only a missing capability stays 400 (T-21).
    """
    if by_handler and not isinstance(error, MissingCapability):
        return OK
    return _REFUSED.get(error.code, 400)
