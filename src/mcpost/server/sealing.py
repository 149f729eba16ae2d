"""`requestState`: what travels through the caller and must come back unchanged.

A sealed state is text: a payload in Base64 and a tag over it (HMAC-SHA256). The payload is bound to
the server, the principal, the method, a digest of the call's parameters and a lifetime, so it is of
no use to another caller, for another call, or later. It is authentic, not secret: a caller can read
what it answered itself. Servers that share a key accept each other's states; the first key seals,
all keys open, so that a key can be replaced without a gap.

A state is not used up: the same one may come again within its lifetime. A handler whose effect must
happen once has to see to that itself.

Spec: patterns/mrtr, "Server Requirements" (P-06).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mcpost.errors import InternalError, InvalidParams, UsageError
from mcpost.limits import ServerLimits
from mcpost.wire.jsonrpc import encode

__all__ = ("Sealer", "binding")

_MIN_KEY: Final = 16
_TAG: Final = 32


class Sealer:
    """Seals and opens states.

    Args:
        keys: One key or several, each of at least 16 bytes; `None` makes one that only this
            process knows.
        limits: Lifetime and size.
        audience: Name of the server; another one that has the same key refuses its states.

    Raises:
        UsageError: A key is too short.
    """

    __slots__ = ("_audience", "_keys", "_limits")

    def __init__(
        self, keys: bytes | Sequence[bytes] | None, limits: ServerLimits, *, audience: str = ""
    ) -> None:
        if keys is None:
            keys = [secrets.token_bytes(32)]
        elif isinstance(keys, bytes):
            keys = [keys]
        if not keys or any(len(key) < _MIN_KEY for key in keys):
            raise UsageError(f"a request state key has at least {_MIN_KEY} bytes")
        self._keys = list(keys)
        self._audience = hashlib.sha256(audience.encode()).digest()
        self._limits = limits

    def seal(self, content: Mapping[str, Any], binding: bytes) -> str:
        """Seal what a handler needs to go on.

        Args:
            content: A JSON object.
            binding: What the state is bound to; see `binding`.

        Returns:
            The state, in characters that any header or URL could carry.

        Raises:
            InternalError: It is over `ServerLimits.max_request_state`, or not JSON.
        """
        expires = int(time.time() + self._limits.request_state_ttl)
        try:
            payload = encode({"x": expires, "c": content})
        except (TypeError, ValueError, RecursionError) as error:
            raise InternalError(f"a request state has to be JSON: {error}") from error
        state = urlsafe_b64encode(self._tag(self._keys[0], payload, binding) + payload).decode()
        if len(state) > self._limits.max_request_state:
            raise InternalError(
                f"a request state of {len(state)} bytes is over"
                f" {self._limits.max_request_state}; see ServerLimits.max_request_state"
            )
        return state

    def open(self, state: object, binding: bytes) -> dict[str, Any]:
        """Open a state that came back.

        Args:
            state: What the caller sent.
            binding: What the state has to be bound to.

        Returns:
            What was sealed.

        Raises:
            InvalidParams: -32602; it is not a state of this server, was changed, is over its
                lifetime, or belongs to another caller or another call.
        """
        if type(state) is not str or len(state) > self._limits.max_request_state:
            raise InvalidParams('"requestState" is not one of this server')
        try:
            raw = urlsafe_b64decode(state.encode("ascii"))
        except ValueError as error:
            raise InvalidParams('"requestState" was changed') from error
        tag, payload = raw[:_TAG], raw[_TAG:]
        # The decoder passes over characters that are none of Base64: only one spelling is ours.
        if urlsafe_b64encode(raw).decode() != state or not any(
            hmac.compare_digest(tag, self._tag(key, payload, binding)) for key in self._keys
        ):
            raise InvalidParams('"requestState" was changed, or belongs to another call')
        opened = msgspec.json.decode(payload)
        if opened["x"] < time.time():
            raise InvalidParams('"requestState" is too old; start the call again')
        content: dict[str, Any] = opened["c"]
        return content

    def _tag(self, key: bytes, payload: bytes, binding: bytes) -> bytes:
        # The two digests have a fixed length, so no payload reads as part of them.
        return hmac.digest(key, self._audience + binding + payload, "sha256")


def binding(principal: str | None, method: str, params: Mapping[str, Any]) -> bytes:
    """Make what a state is bound to: the caller, the method, and what is asked of it.

    Args:
        principal: The caller's id, `None` without authentication.
        method: The request's method.
        params: Its parameters; only those that say what is called count.
    """
    salient = {
        name: value
        for name, value in sorted(params.items())
        if name not in ("_meta", "inputResponses", "requestState")
    }
    return hashlib.sha256(
        msgspec.json.encode([principal, method, salient], order="deterministic")
    ).digest()
