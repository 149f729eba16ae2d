"""Which endpoint serves a key: rendezvous hashing.

Every endpoint is weighed for the key and the heaviest wins, so when one leaves only its own keys
move, and each of them moves to where it would have gone had that endpoint never been there.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b

__all__ = ("pick",)


def pick(key: str, endpoints: tuple[str, ...], down: Collection[str] = ()) -> str | None:
    """Choose the endpoint of a key.

    Args:
        key: What is hashed.
        endpoints: All endpoints, in any order.
        down: Those that take no calls now.

    Returns:
        The endpoint; `None` where none is left.
    """
    order = _rank(key, endpoints)
    if not down:
        return order[0] if order else None
    return next((endpoint for endpoint in order if endpoint not in down), None)


@lru_cache(maxsize=4096)
def _rank(key: str, endpoints: tuple[str, ...]) -> tuple[str, ...]:
    raw = key.encode("utf-8", "surrogatepass")

    def weigh(endpoint: str) -> bytes:
        return blake2b(raw, digest_size=8, key=blake2b(endpoint.encode()).digest()).digest()

    return tuple(sorted(endpoints, key=weigh, reverse=True))
