"""Modern or legacy: found out from the first answers of a server, and remembered.

The first request of a client is a modern one. What comes back tells: a result or an error that
only this revision has means *modern*; a refusal that a server of either era could have sent (400,
404, 405 with anything else in it) only makes *suspicious*, since proxies and frameworks send such
too: nginx answers an over-long header with 400 and a page of HTML. A suspicion is followed up with
one `server/discover`, which every modern server answers; only when that is refused in the same way
is the server a legacy one. 401, 403, 406, 429 and 5xx tell nothing about the era.

Spec: basic/versioning; streamable-http, "Backward Compatibility" (V-03).
"""

from __future__ import annotations

import asyncio
import enum
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.client.transport import Transport
from mcpost.errors import BadReply, LegacyServer, RpcError
from mcpost.wire.jsonrpc import Response
from mcpost.wire.mirror import request_headers
from mcpost.wire.versions import Era, is_modern_error

__all__ = ("DualTransport", "EraMemory", "Verdict", "judge")

_SUSPICIOUS: Final = frozenset({400, 404, 405})


class Verdict(enum.Enum):
    """What one answer tells about a server."""

    MODERN = "modern"
    SUSPICIOUS = "suspicious"
    NOTHING = "nothing"


def judge(status: int, response: Response | None) -> Verdict:
    """Tell what the answer to a modern request says about the server's era.

    Args:
        status: HTTP status.
        response: The JSON-RPC response in the body, `None` if there is none.
    """
    if response is not None:
        if response.error is None:
            return Verdict.MODERN
        code = response.error.code
        # 404 with -32601 is how a modern server refuses a method that it does not have (T-18).
        if is_modern_error(code) or (status == 404 and code == -32601):
            return Verdict.MODERN
        if 200 <= status < 300:
            return Verdict.MODERN
    return Verdict.SUSPICIOUS if status in _SUSPICIOUS else Verdict.NOTHING


class EraMemory:
    """Remembers the era of servers, by origin and path; share one among the clients of a program.

    Args:
        limit: Servers that are remembered, the least recently asked for first out.
    """

    def __init__(self, limit: int = 1_024) -> None:
        self._limit = limit
        self._known: OrderedDict[str, Era] = OrderedDict()

    def get(self, name: str) -> Era | None:
        """Tell the era of a server, `None` if it is not known."""
        era = self._known.get(name)
        if era is not None:
            self._known.move_to_end(name)
        return era

    def put(self, name: str, era: Era) -> None:
        """Remember the era of a server."""
        self._known[name] = era
        self._known.move_to_end(name)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)

    def forget(self, name: str) -> None:
        """Forget a server, so that the next call finds out again."""
        self._known.pop(name, None)


MakeLegacy = Callable[[], Transport]


class DualTransport:
    """A transport that finds out which era its server is of.

    Args:
        modern: The transport of this revision.
        memory: What is known already.
        legacy: Makes the transport of the earlier revisions; `None` where this program has none,
            and then a legacy server is an error that says so.
        era: The era, where it is known beforehand; nothing is found out then.
    """

    def __init__(
        self,
        modern: Transport,
        memory: EraMemory,
        legacy: MakeLegacy | None = None,
        era: Era | None = None,
    ) -> None:
        self._modern = modern
        self._memory = memory
        self._make_legacy = legacy
        self._legacy: Transport | None = None
        self._fixed = era

    @property
    def mirrors(self) -> bool:
        """Whether arguments are mirrored: by the transport of this revision."""
        return self._modern.mirrors

    @property
    def name(self) -> str:
        """What the transport leads to."""
        return self._modern.name

    @property
    def open_connections(self) -> int:
        """How many connections are open, of both eras."""
        legacy = self._legacy.open_connections if self._legacy is not None else 0
        return self._modern.open_connections + legacy

    @property
    def era(self) -> Era | None:
        """The server's era, `None` before it is known."""
        return self._fixed or self._memory.get(self._modern.name)

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request, by the wire of the server's era.

        Raises:
            LegacyServer: The server is a legacy one, and this client speaks none of its revisions.
        """
        era = self.era
        if era is Era.MODERN:
            return await self._modern.send(out, attempt)
        if era is Era.LEGACY:
            return await self._send_legacy(out, attempt)
        reply: Reply | None = None
        refusal: BadReply | None = None
        try:
            reply = await self._modern.send(out, attempt)
            verdict = judge(reply.status, reply.response)
        except BadReply as error:
            refusal = error
            verdict = judge(error.status, None)
        if verdict is Verdict.MODERN:
            self._memory.put(self.name, Era.MODERN)
        elif verdict is Verdict.SUSPICIOUS and await self._is_legacy(out, attempt):
            self._memory.put(self.name, Era.LEGACY)
            return await self._send_legacy(out, attempt, reply, refusal)
        if refusal is not None:
            raise _explain(refusal, out) if verdict is Verdict.SUSPICIOUS else refusal
        assert reply is not None
        return reply

    async def close(self) -> None:
        """Close both transports."""
        # The earlier one takes leave of its server, over the connections of both.
        if self._legacy is not None:
            await self._legacy.close()
        await self._modern.close()

    async def _is_legacy(self, out: Outgoing, attempt: Attempt) -> bool:
        """Follow up a suspicion: ask what every modern server answers."""
        if out.method == "server/discover":
            return True
        version = out.lines[0][1] if out.lines else ""
        meta = {key: value for key, value in out.params["_meta"].items() if "/" in key}
        params = {"_meta": meta}
        probe = Outgoing(
            f"{out.id}-era",
            "server/discover",
            params,
            request_headers("server/discover", params, version),
        )
        try:
            reply = await self._modern.send(probe, Attempt(attempt.last_sign))
        except BadReply as error:
            return judge(error.status, None) is Verdict.SUSPICIOUS
        verdict = judge(reply.status, reply.response)
        if verdict is Verdict.MODERN:
            self._memory.put(self.name, Era.MODERN)
        return verdict is Verdict.SUSPICIOUS

    async def _send_legacy(
        self,
        out: Outgoing,
        attempt: Attempt,
        reply: Reply | None = None,
        refusal: BadReply | None = None,
    ) -> Reply:
        if self._legacy is None:
            if self._make_legacy is None:
                raise _unspoken(self.name, reply, refusal)
            self._legacy = self._make_legacy()
        if reply is not None or refusal is not None:
            attempt.restart(asyncio.get_running_loop().time())
        try:
            return await self._legacy.send(out, attempt)
        except LegacyServer as error:
            # It is of neither era; what was found out was a guess.
            self._memory.forget(self.name)
            if reply is None and refusal is None:
                raise
            raise _neither(self.name, reply, refusal, error) from error


def _said(reply: Reply | None, refusal: BadReply | None) -> tuple[str, int]:
    """What a server answered to a request of this revision, and its status."""
    if refusal is not None:
        return str(refusal), refusal.status
    if reply is not None and reply.response.error is not None:
        error = reply.response.error
        return str(RpcError(error.code, error.message)), reply.status
    return "it was found out earlier", 0


def _unspoken(name: str, reply: Reply | None, refusal: BadReply | None) -> LegacyServer:
    said, status = _said(reply, refusal)
    return LegacyServer(
        f"{name} does not know revision 2026-07-28, and this client speaks no earlier one here:"
        f" {said}",
        status=status,
    )


def _neither(
    name: str, reply: Reply | None, refusal: BadReply | None, legacy: LegacyServer
) -> LegacyServer:
    said, status = _said(reply, refusal)
    if status == 404:
        return LegacyServer(
            f"there is no MCP endpoint at {name}: the answer is 404, whatever the revision."
            " Is the path right? It is /mcp with most servers",
            status=status,
        )
    return LegacyServer(
        f"{name} speaks neither revision 2026-07-28 ({said}) nor an earlier one ({legacy})",
        status=status,
    )


def _explain(refusal: BadReply, out: Outgoing) -> BadReply:
    """Say what is likely where a modern server's way refuses one request and not the other."""
    size = sum(len(name) + len(value) + 4 for name, value in out.lines)
    if refusal.status != 400 or size < 2_048:
        return refusal
    return BadReply(
        f"{refusal} (its mirrored header lines have {size} bytes; proxies such as nginx refuse"
        " heads above about 8 KiB in this way)",
        status=refusal.status,
        excerpt=refusal.excerpt,
    )
