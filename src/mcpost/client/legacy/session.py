"""A session with a server of an earlier revision, over whatever wire.

The rest of the client makes requests of this revision; here they become those of the earlier ones.
`server/discover` is answered from what `initialize` said, `subscriptions/listen` becomes
subscriptions and a place to hear changes (`listening`), the level of logs is set for the session,
and `_meta` loses what only this revision has in it.

Spec: 2025-11-25, basic/lifecycle; server/utilities/logging (L-01, L-03, L-04).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.client.inputs import Inputs
from mcpost.client.legacy.asked import Asked
from mcpost.client.legacy.listening import Listening
from mcpost.errors import LegacyServer, RpcError
from mcpost.limits import ClientLimits
from mcpost.wire import meta as keys
from mcpost.wire.jsonrpc import Notification, Request, Response, encode_notification
from mcpost.wire.versions import LEGACY

__all__ = ("Session", "Wire")

_log = logging.getLogger("mcpost.client")

_OURS: Final = "io.modelcontextprotocol/"


class Wire(Protocol):
    """What carries a session."""

    async def request(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request and wait for its response; cancelling it cancels it at the server."""
        ...

    async def tell(self, message: bytes) -> None:
        """Send a notification or a response."""
        ...

    async def hear(self) -> bool:
        """See to it that what belongs to no request is heard; false where it cannot be."""
        ...


class Session:
    """A session.

    Args:
        wire: What carries it.
        inputs: What the server may ask.
        limits: Bounds.

    Next: `open`, then `send`; the wire gives `take` what belongs to no request.
    """

    def __init__(self, wire: Wire, inputs: Inputs, limits: ClientLimits) -> None:
        self._wire = wire
        self._ids = itertools.count(1)
        self._level: str | None = None
        self._asked = Asked(inputs, wire.tell, limits.max_asked)
        self._listening = Listening(self._ask, wire.hear)
        self._info: dict[str, Any] = {}
        self._instructions: str | None = None
        self.version = LEGACY[0]
        """The version that was settled."""
        self.capabilities: dict[str, Any] = {}
        """What the server can do."""

    async def open(self, meta: Mapping[str, Any]) -> None:
        """Shake hands.

        Args:
            meta: `_meta` of the first request, which says who this client is.

        Raises:
            LegacyServer: The server refuses, or speaks no revision that this client speaks.
            TransportError: There is no answer.
        """
        params = {
            "protocolVersion": LEGACY[0],
            "capabilities": meta.get(keys.CLIENT_CAPABILITIES, {}),
            "clientInfo": meta.get(keys.CLIENT_INFO, {"name": "mcpost", "version": "0"}),
        }
        reply = await self._wire.request(
            Outgoing(self._next_id(), "initialize", params, []),
            Attempt(asyncio.get_running_loop().time()),
        )
        error, result = reply.response.error, reply.response.result or {}
        if error is not None:
            raise LegacyServer(
                f"the server refuses `initialize`: {error.message} ({error.code})",
                status=reply.status,
            )
        version = result.get("protocolVersion")
        if version not in LEGACY:
            raise LegacyServer(f"the server speaks {version!r}, this client {list(LEGACY)}")
        capabilities, info = result.get("capabilities"), result.get("serverInfo")
        self.version = version
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self._info = info if isinstance(info, dict) else {}
        self._instructions = result.get("instructions")
        await self._wire.tell(encode_notification("notifications/initialized"))

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request of this revision as one of the session's."""
        if out.method == "server/discover":
            return self._discover(out, attempt)
        self._asked.enter(attempt)
        try:
            if out.method == "subscriptions/listen":
                return await self._listening.run(out, attempt, self.capabilities)
            meta = out.params.get("_meta", {})
            await self._set_level(meta.get(keys.LOG_LEVEL))
            return await self._wire.request(out._replace(params=_plain(out.params)), attempt)
        finally:
            self._asked.leave(attempt)

    def take(self, message: Request | Notification) -> None:
        """Take a message that belongs to no request."""
        if isinstance(message, Request) or message.method == "notifications/cancelled":
            self._asked.take(message)
        else:
            self._listening.take(message)

    def lose(self, reason: str) -> None:
        """Changes may have been missed: listens end, to be opened again by whoever wants them."""
        self._listening.lose(reason)

    async def close(self) -> None:
        """End the answers under way."""
        await self._asked.close()
        await self._listening.close()

    async def _set_level(self, level: str | None) -> None:
        """Let the level of the session be that of its last call that asked for logs."""
        if level is None or level == self._level or "logging" not in self.capabilities:
            return
        self._level = level
        try:
            await self._ask("logging/setLevel", {"level": level})
        except RpcError as error:
            _log.warning("the server sets no level for its logs: %s", error)

    def _next_id(self) -> str:
        # Never one of the calls', which are numbers.
        return f"session-{next(self._ids)}"

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Make a request of the session's own."""
        attempt = Attempt(asyncio.get_running_loop().time())
        reply = await self._wire.request(Outgoing(self._next_id(), method, params, []), attempt)
        error = reply.response.error
        if error is not None:
            raise RpcError(error.code, error.message, error.data, status=reply.status)
        return reply.response.result or {}

    def _discover(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Answer from what `initialize` said."""
        now = asyncio.get_running_loop().time()
        attempt.sending(now)
        attempt.heard(now)
        attempt.finish()
        result: dict[str, Any] = {
            "resultType": "complete",
            "supportedVersions": [self.version],
            "capabilities": self.capabilities,
            "_meta": {keys.SERVER_INFO: self._info},
        }
        if self._instructions is not None:
            result["instructions"] = self._instructions
        return Reply(Response(out.id, result=result))


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Take out of `_meta` what only this revision has in it."""
    meta = {
        key: value for key, value in params.get("_meta", {}).items() if not key.startswith(_OURS)
    }
    plain = {key: value for key, value in params.items() if key != "_meta"}
    return {**plain, "_meta": meta} if meta else plain
