"""Every error of this package, as one tree.

The class says who erred: a `WireError` is answered to a peer whose message broke a rule, a
`TransportError` or `RpcError` is what a caller meets when the other side or the network failed,
a `UsageError` is a mistake in the program that uses this package and never leaves the process.

```
McpostError
├─ WireError(message, data)          a JSON-RPC error that we answer with
│  ├─ ParseError -32700              ├─ HeaderMismatch -32020
│  ├─ InvalidRequest -32600          ├─ MissingCapability -32021
│  ├─ MethodNotFound -32601          └─ UnsupportedVersion -32022
│  ├─ InvalidParams -32602
│  └─ InternalError -32603
├─ Refused(status, reason)           an HTTP refusal that has no JSON-RPC code of its own
├─ ToolError(text)                   raised by a tool: its call failed, and the caller may read why
├─ NotFound(text)                    raised by a resource's function: there is no such resource
├─ UsageError                        this program used the package wrongly
│  ├─ BadMark(tool, path, rule)      ├─ BadTarget
│  └─ IllegalMove(state, event)
├─ TransportError(sent)              no answer could be had
│  ├─ ConnectFailed                  ├─ Timeout(phase, seconds)
│  ├─ ConnectionLost                 ├─ TooLarge(what, limit)
│  └─ BadReply(status, excerpt)
│     ├─ Busy(retry_after) 429, 503     ├─ Denied(challenge) 401, 403
│     └─ LegacyServer                   the server is of an earlier revision
├─ RpcError(code, message, data, status)   the peer answered with an error
├─ ToolFailed(result)                      a tool's failure, where the caller asked for an exception
└─ PolicyError(file, line, rule)           the gateway's configuration is wrong
```

Spec: basic/index, "Error Codes" (J-03); streamable-http, "Server Validation".
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

__all__ = (
    "BadMark",
    "BadReply",
    "BadTarget",
    "Busy",
    "ConnectFailed",
    "ConnectionLost",
    "Denied",
    "HeaderMismatch",
    "IllegalMove",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LegacyServer",
    "McpostError",
    "MethodNotFound",
    "MissingCapability",
    "NotFound",
    "ParseError",
    "PolicyError",
    "Refused",
    "RpcError",
    "Sent",
    "Timeout",
    "TooLarge",
    "ToolError",
    "ToolFailed",
    "TransportError",
    "UnsupportedVersion",
    "UsageError",
    "WireError",
)

Sent = Literal["no", "maybe", "yes"]
"""Whether a request may have reached its server: the retry rule reads this."""


class McpostError(Exception):
    """Root of the tree; `str()` says what was wrong, where, and what to do."""


class WireError(McpostError):
    """A JSON-RPC error to answer with.

    Args:
        message: One sentence for the peer: what was wrong and what would be right.
        data: JSON value for the error's `data` member; `None` leaves the member out.
        request_id: The request's id where it could be read, else `None`. The error of a message
            without a readable id has no `id` member.
    """

    code: ClassVar[int] = -32603
    """The JSON-RPC error code that this class stands for."""

    requirement: ClassVar[str] = "T-23"
    """The id of the requirement that is broken (docs/requirements.md)."""

    def __init__(
        self, message: str, data: Any = None, *, request_id: int | str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        self.request_id = request_id


class ParseError(WireError):
    """The body is not UTF-8 or not JSON."""

    code = -32700
    requirement = "T-07"


class InvalidRequest(WireError):
    """The body is JSON, but not one JSON-RPC request or notification."""

    code = -32600
    requirement = "T-07"


class MethodNotFound(WireError):
    """The method is not served."""

    code = -32601
    requirement = "T-18"


class InvalidParams(WireError):
    """The parameters, or a required `_meta` field, are missing or wrong."""

    code = -32602
    requirement = "T-20"


class InternalError(WireError):
    """The server failed; the caller did nothing wrong."""

    code = -32603
    requirement = "T-23"


class HeaderMismatch(WireError):
    """A mirrored header is missing, malformed, or says something else than the body."""

    code = -32020
    requirement = "T-19"


class MissingCapability(WireError):
    """The request needs a client capability that it did not declare.

    Args:
        message: One sentence for the peer.
        required: The capabilities that are missing, keyed by name, as in `{"sampling": {}}`.
    """

    code = -32021
    requirement = "T-21"

    def __init__(
        self, message: str, required: dict[str, Any], *, request_id: int | str | None = None
    ) -> None:
        super().__init__(message, {"requiredCapabilities": required}, request_id=request_id)


class UnsupportedVersion(WireError):
    """The protocol version is not served.

    Args:
        requested: The version that the request named.
        supported: The versions that are served, best first.
    """

    code = -32022
    requirement = "T-17"

    def __init__(
        self,
        requested: str,
        supported: tuple[str, ...],
        *,
        request_id: int | str | None = None,
    ) -> None:
        super().__init__(
            f"protocol version {requested!r} is not served here; use one of {list(supported)}",
            {"supported": list(supported), "requested": requested},
            request_id=request_id,
        )


class Refused(McpostError):
    """An HTTP refusal that stands before JSON-RPC: 401, 403, 404, 405, 406, 413, 415, 503.

    Args:
        status: The HTTP status code.
        reason: One sentence for the person who reads the body.
        headers: Response header lines to send with it, names in lower case.
    """

    def __init__(
        self, status: int, reason: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers


class ToolError(McpostError):
    """Raise it in a tool: the call's result is `isError: true` with this text.

    The text goes to the caller as it stands; of any other exception only the class name does.
    """


class NotFound(McpostError):
    """Raise it in a resource's function: what the URI names does not exist (-32602, F-02)."""


class UsageError(McpostError):
    """This program used the package wrongly; raised where the mistake is made, never sent."""


class BadMark(UsageError):
    """An `x-mcp-header` annotation breaks a rule of tools, "x-mcp-header" (H-02 to H-04).

    Args:
        path: Where in the schema the mark stands, as in `properties.region`.
        rule: The rule that is broken, as a sentence.
        tool: Name of the tool, where it is known.
    """

    def __init__(self, path: str, rule: str, *, tool: str | None = None) -> None:
        where = f"tool {tool!r}, {path}" if tool else path
        super().__init__(f"{where}: {rule}")
        self.path = path
        self.rule = rule
        self.tool = tool


class BadTarget(UsageError):
    """What was named is not a server: a wrong `module:object`, path or URL."""


class IllegalMove(UsageError):
    """An event is not allowed in this state; if it is seen, this package has a bug.

    Args:
        state: The state the machine was in.
        event: What was asked of it.
    """

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"{event} is not allowed in state {state}")
        self.state = state
        self.event = event


class TransportError(McpostError):
    """No answer could be had.

    Args:
        message: What happened, where, and what to do.
        sent: Whether the server may have received the request, and so may have run it.
    """

    def __init__(self, message: str, *, sent: Sent = "maybe") -> None:
        super().__init__(message)
        self.sent: Sent = sent


class ConnectFailed(TransportError):
    """No connection could be made; the server has seen nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent="no")


class ConnectionLost(TransportError):
    """The connection ended before the answer was complete."""


class Timeout(TransportError):
    """A deadline passed.

    Args:
        phase: What was waited for: `connect`, `head`, `idle`, `total`.
        seconds: The deadline that passed, in seconds.
        sent: As for `TransportError`.
    """

    def __init__(self, phase: str, seconds: float, *, sent: Sent = "maybe") -> None:
        super().__init__(f"no answer within {seconds:g} s (phase: {phase})", sent=sent)
        self.phase = phase
        self.seconds = seconds


class TooLarge(TransportError):
    """An answer is larger than this side accepts.

    Args:
        what: What was too large: `answer`, `event`, `head`, `line`.
        limit: The limit in bytes.
        setting: Name of the setting that changes it.
    """

    def __init__(self, what: str, limit: int, setting: str) -> None:
        super().__init__(f"{what} is larger than {limit} bytes; see {setting}", sent="yes")
        self.what = what
        self.limit = limit
        self.setting = setting


class BadReply(TransportError):
    """The answer is not one that this protocol knows.

    Args:
        message: What was wrong with it.
        status: HTTP status of the answer, 0 where the transport has none.
        excerpt: The first bytes of the body as text, at most 200 characters.
    """

    def __init__(self, message: str, *, status: int = 0, excerpt: str = "") -> None:
        super().__init__(message, sent="yes")
        self.status = status
        self.excerpt = excerpt


class Busy(BadReply):
    """The server, or a proxy before it, takes no more now: 429 or 503.

    `sent` is `no` where it says when to come back, since it then speaks of a call that it has not
    taken; without that a proxy may speak of a server that it lost, so it is `maybe`.

    Args:
        message: What it said.
        status: 429 or 503.
        retry_after: Seconds after which to come back, `None` where it named none.
        excerpt: As for `BadReply`.
    """

    def __init__(
        self, message: str, *, status: int, retry_after: float | None = None, excerpt: str = ""
    ) -> None:
        super().__init__(message, status=status, excerpt=excerpt)
        self.retry_after = retry_after
        self.sent = "maybe" if retry_after is None else "no"


class Denied(BadReply):
    """The server wants other credentials: 401 or 403. It has not run the call.

    Args:
        message: What it said.
        status: 401 or 403.
        challenge: The value of `WWW-Authenticate`, empty where there was none.
        excerpt: As for `BadReply`.
    """

    def __init__(
        self, message: str, *, status: int, challenge: str = "", excerpt: str = ""
    ) -> None:
        super().__init__(message, status=status, excerpt=excerpt)
        self.challenge = challenge
        self.sent = "no"


class LegacyServer(BadReply):
    """The server does not know this revision of the protocol (V-03). It has not run the call."""

    def __init__(self, message: str, *, status: int = 0, excerpt: str = "") -> None:
        super().__init__(message, status=status, excerpt=excerpt)
        self.sent = "no"


class RpcError(McpostError):
    """The peer answered with a JSON-RPC error.

    Args:
        code: The error's code.
        message: The error's message, as received.
        data: The error's data, `None` where it had none.
        status: HTTP status of the answer, 0 where the transport has none.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 0) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data
        self.status = status

    @property
    def is_not_found(self) -> bool:
        """Whether a resource was not found, in this revision's code or the earlier -32002."""
        if self.code == -32002:
            return True
        return self.code == -32602 and isinstance(self.data, dict) and "uri" in self.data


class ToolFailed(McpostError):
    """A tool's result says `isError`, and the caller asked for an exception.

    Args:
        text: The text of the result.
        result: The whole result.
    """

    def __init__(self, text: str, result: Any) -> None:
        super().__init__(text)
        self.result = result


class PolicyError(McpostError):
    """The gateway's policy file is wrong.

    Args:
        message: What is wrong and what would be right.
        file: Path of the file.
        line: Line number, from 1; 0 where it is not known.
        key: The key that is wrong, as in `rules[2].name`.
    """

    def __init__(self, message: str, *, file: str = "", line: int = 0, key: str = "") -> None:
        where = ":".join(str(part) for part in (file, line or "") if part)
        super().__init__(" ".join(part for part in (where, key, message) if part))
        self.file = file
        self.line = line
        self.key = key
