"""Bytes of a head to `Request` and `Response`: fields, and where the body ends.

The bytes have matched `grammar` before; llhttp parses them a second time and gives the fields. Each
head has a parser of its own, so nothing of one message can reach the next, and body bytes never
reach it.

Framing is decided here and nowhere else, RFC 9112, 6.3 without its allowances: one length or one
`chunked`, never both, never twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from re import Match
from typing import Any, Final

import httptools

from mcpost.http11.errors import Malformed
from mcpost.http11.grammar import HOST
from mcpost.http11.limits import MessageLimits

__all__ = ("CHUNKED", "UNTIL_CLOSE", "Request", "Response", "parse_request", "parse_response")

CHUNKED: Final = -1
"""The `length` of a chunked body."""

UNTIL_CLOSE: Final = -2
"""The `length` of a response body that ends with its connection."""

_Parser = httptools.HttpRequestParser | httptools.HttpResponseParser

# Repeated, these could mean one thing here and another to a proxy.
_SINGLE = (b"host", b"content-length", b"transfer-encoding", b"expect")

_METHODS = {name.encode(): name for name in ("DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT")}

# Secrets, and what changes while the body is waited for.
_UNKEPT = frozenset({b"authorization", b"cookie", b"proxy-authorization", b"x-api-key", b"expect"})
_UNKEPT_ANSWERS = frozenset({b"set-cookie", b"mcp-session-id"})
_MAX_KNOWN = 512
_MAX_KNOWN_LENGTH = 1024

# Fifteen digits are below 2**53 and far above any limit.
_MAX_LENGTH_DIGITS = 15


@functools.lru_cache(maxsize=64)
def _is_host(host: bytes) -> bool:
    # Few hosts are served, and each of them is named again and again.
    return HOST.fullmatch(host) is not None


class _Fields:
    """What both heads have.

    Without slots: a default of the class costs nothing where the field is not sent.
    """

    headers: list[tuple[bytes, bytes]]
    """Header lines in their order, names in lower case, values without outer blanks."""
    fields: dict[bytes, bytes]
    """The same by name, for a look-up; of lines that are repeated the last, of `connection` all."""
    minor: int
    """1 for HTTP/1.1, 0 for HTTP/1.0."""
    length = 0
    """Bytes of the body, `CHUNKED` or `UNTIL_CLOSE`."""

    def connection_options(self) -> frozenset[bytes]:
        """The options that `Connection` names, in lower case."""
        options = self.fields.get(b"connection", b"").lower().split(b",")
        return frozenset(option.strip() for option in options)

    def _framed_length(self) -> int | None:
        """Length of the body, `CHUNKED`, or `None` where the head names neither."""
        fields = self.fields
        length = fields.get(b"content-length")
        coding = fields.get(b"transfer-encoding")
        if coding is not None:
            if length is not None:
                raise Malformed(400, "there are a Content-Length and a Transfer-Encoding")
            if self.minor == 0:
                raise Malformed(400, "HTTP/1.0 has no Transfer-Encoding")
            if coding.lower() != b"chunked":
                raise Malformed(501, "the only transfer coding that is known is chunked")
            return CHUNKED
        if length is None:
            return None
        # isdigit() of bytes knows the ten ASCII digits only.
        if not length.isdigit() or len(length) > _MAX_LENGTH_DIGITS:
            raise Malformed(400, "the Content-Length is not a number of bytes")
        return int(length)


class Request(_Fields):
    """The head of a request."""

    expects = False
    """Whether the client waits for `100 Continue` before it sends the body."""
    peer: str | None = None
    """Address of the client, `None` for a Unix socket."""
    note: Any = None
    """What the application keeps about this head. A head that comes again to the byte from the same
    address is the same `Request`, so what was found out about it need not be found out again; all
    else of it must not be changed."""

    def __init__(self, method: bytes, target: bytes, minor: int) -> None:
        self.method: str = _METHODS.get(method) or method.decode("ascii")
        """The method, as received."""
        self.target = target
        """The request target, as received: visible ASCII without a fragment."""
        self.minor = minor
        self.keep_alive = minor == 1
        """Whether the client leaves the connection open after the answer."""

    @property
    def path(self) -> str:
        """The target without its query, still percent-encoded; `*` for the server as a whole."""
        path = self.target.partition(b"?")[0]
        if path[:1] not in {b"/", b"*"}:
            path = b"/" + path.split(b"/", 3)[3] if path.count(b"/") > 2 else b"/"
        return path.decode("ascii")

    @property
    def query(self) -> bytes:
        """What follows the first `?` of the target, else nothing."""
        return self.target.partition(b"?")[2]

    def frame(self) -> None:
        """Decide where the body ends and whether the connection is kept.

        Raises:
            Malformed: 400, 417 or 501; the rules at the head of this file.
        """
        length = self._framed_length()
        if length is not None:
            self.length = length
        fields = self.fields
        host = fields.get(b"host")
        if host is not None and not _is_host(host):
            raise Malformed(400, "the Host is not a host and a port")
        if self.minor == 1:
            if host is None:
                raise Malformed(400, "there is no Host")
            if b"connection" in fields:
                self.keep_alive = b"close" not in self.connection_options()
            if b"expect" in fields:
                self.expects = fields[b"expect"].lower() == b"100-continue"
                if not self.expects:
                    raise Malformed(417, "the only expectation that is known is 100-continue")
        if self.target[:1] != b"/":
            self._check_target()

    def _check_target(self) -> None:
        # RFC 9112, 3.2.4: the asterisk form is for OPTIONS alone.
        if self.target == b"*" and self.method == "OPTIONS":
            return
        # 3.2.2: an absolute form is accepted; that its host could differ from Host is not.
        scheme, mark, rest = self.target.partition(b"://")
        if not mark or scheme.lower() not in {b"http", b"https"}:
            raise Malformed(400, "the request target is not a path")
        authority = rest.partition(b"/")[0].partition(b"?")[0]
        if not authority or authority.lower() != self.fields.get(b"host", b"").lower():
            raise Malformed(400, "the host of the request target is not the Host")


class Response(_Fields):
    """The head of a response."""

    keep_alive = False
    """Whether the connection can be used again after this response."""
    note: Any = None
    """What the receiver keeps about this head, as `Request.note`: a head that comes again to the
    byte is the same `Response`."""

    def __init__(self, status: int, minor: int) -> None:
        self.status = status
        """The status, 100 to 599."""
        self.minor = minor

    def frame(self, method: bytes) -> None:
        """Decide where the body ends.

        Args:
            method: Method of the request that is answered; HEAD has no body.

        Raises:
            Malformed: The rules at the head of this file, or a body where none may be.
        """
        length = self._framed_length()
        status = self.status
        if status == 204 or status < 200:
            # RFC 9110, 8.6 and RFC 9112, 6.1: neither field may be sent here; what follows would
            # be a body for one reader and a response for the next.
            if length is not None and length != 0:
                raise Malformed(400, f"a {status} response announces a body")
        elif method == b"HEAD" or status == 304:
            pass
        else:
            self.length = UNTIL_CLOSE if length is None else length
        if self.minor == 1 and self.length != UNTIL_CLOSE:
            self.keep_alive = b"close" not in self.connection_options()


class KnownHeads:
    """Heads of requests that were read before, by one application.

    A client says much the same with every request on a connection, often to the byte. What was
    read once need not be read again; the number and the length of what is kept are bounded, and a
    head that carries a secret is not kept.
    """

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[bytes, Request] = {}

    def get(self, head: bytes, peer: str | None) -> Request | None:
        """Give the request with this very head from this address, if it was read before."""
        request = self._heads.get(head)
        if request is None or request.peer == peer:
            return request
        # Of another client: the same words, but what was noted about it may depend on the address.
        other = Request.__new__(Request)
        other.__dict__.update(request.__dict__)
        other.peer = peer
        other.note = None
        self._heads[head] = other
        return other

    def put(self, head: bytes, request: Request) -> None:
        """Keep what was read."""
        if len(head) > _MAX_KNOWN_LENGTH or not _UNKEPT.isdisjoint(request.fields):
            return
        if len(self._heads) >= _MAX_KNOWN:
            self._heads.clear()
        self._heads[head] = request


class KnownResponses:
    """Heads of responses that were read before, of one upstream.

    Only those before a body of known length, in answer to a method that has one: others are framed
    by more than their bytes. Bounded, and without secrets, as `KnownHeads`.
    """

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[bytes, Response] = {}

    def get(self, head: bytes) -> Response | None:
        """Give the response with this very head, if it was read before."""
        return self._heads.get(head)

    def put(self, head: bytes, response: Response) -> None:
        """Keep what was read."""
        if len(head) > _MAX_KNOWN_LENGTH or not _UNKEPT_ANSWERS.isdisjoint(response.fields):
            return
        if len(self._heads) >= _MAX_KNOWN:
            self._heads.clear()
        self._heads[head] = response


def parse_request(data: bytes, match: Match[bytes], limits: MessageLimits) -> Request:
    """Read the head of a request.

    Args:
        data: Bytes that contain the head.
        match: What `REQUEST_HEAD` matched in them.
        limits: Bounds of the message.

    Raises:
        Malformed: 400, 414, 417, 431 or 501.
    """
    method, target, minor = match.groups()
    start, end = match.span()
    if len(target) > limits.max_target:
        raise Malformed(414, f"the request target is longer than {limits.max_target} bytes")
    if end - start > limits.max_head:
        raise Malformed(431, f"the head is longer than {limits.max_head} bytes")
    request = Request(method, target, 1 if minor == b"1" else 0)
    _parse(httptools.HttpRequestParser, request, data[start:end], limits)
    request.frame()
    return request


def parse_response(
    data: bytes, match: Match[bytes], method: bytes, limits: MessageLimits
) -> Response:
    """Read the head of a response, interim ones too.

    Args:
        data: Bytes that contain the head.
        match: What `RESPONSE_HEAD` matched in them.
        method: Method of the request that is answered.
        limits: Bounds of the message.

    Raises:
        Malformed: The head breaks a rule or a limit.
    """
    minor, status = match.groups()
    start, end = match.span()
    if end - start > limits.max_head:
        raise Malformed(431, f"the head is longer than {limits.max_head} bytes")
    response = Response(int(status), 1 if minor == b"1" else 0)
    _parse(httptools.HttpResponseParser, response, data[start:end], limits)
    response.frame(method)
    return response


class _Sink:
    """What llhttp calls for each header line."""

    __slots__ = ("on_header",)

    on_header: Callable[[bytes, bytes], object]


def _parse(parser: type[_Parser], message: _Fields, head: bytes, limits: MessageLimits) -> None:
    # First line and blank line are no fields.
    count = head.count(b"\r\n") - 2
    if count > limits.max_fields:
        raise Malformed(431, f"there are more than {limits.max_fields} header lines")
    lines: dict[bytes, bytes] = {}
    # A method of dict costs a fifth of a Python function; it keeps the first of each name.
    _feed(parser, lines.setdefault, head)
    # llhttp leaves the blanks at the end; other white space cannot be there.
    fields = {name.lower(): value.rstrip() for name, value in lines.items()}
    message.fields = fields
    if len(fields) == count:
        message.headers = [*fields.items()]
    else:
        _parse_repeated(parser, message, head)


def _parse_repeated(parser: type[_Parser], message: _Fields, head: bytes) -> None:
    """The same for a head in which a name is repeated."""
    headers: list[tuple[bytes, bytes]] = []
    _feed(parser, lambda name, value: headers.append((name.lower(), value.rstrip())), head)
    message.headers = headers
    fields = message.fields = dict(headers)
    names = [name for name, _ in headers]
    for name in _SINGLE:
        if names.count(name) > 1:
            raise Malformed(400, f"there is more than one {name.decode('ascii')}")
    if b"connection" in fields:
        fields[b"connection"] = b",".join(value for name, value in headers if name == b"connection")


def _feed(parser: type[_Parser], on_header: Callable[[bytes, bytes], object], head: bytes) -> None:
    sink = _Sink()
    sink.on_header = on_header
    try:
        parser(sink).feed_data(head)
    except httptools.HttpParserUpgrade:
        # CONNECT, or an Upgrade: llhttp stops here. The target of the first is refused by
        # `Request.frame`; the second is ignored, as RFC 9110, 7.8 allows.
        pass
    except httptools.HttpParserInvalidMethodError as error:
        raise Malformed(501, "the method is not known") from error
    except httptools.HttpParserError as error:
        raise Malformed(400, str(error)) from error
