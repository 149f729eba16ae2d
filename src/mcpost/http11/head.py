"""Bytes of a head to `Request` and `Response`: fields, and where the body ends.

The bytes have matched `grammar` before; llhttp parses them a second time and gives the fields. Each
head has a parser of its own, so nothing of one message can reach the next, and body bytes never
reach it.

Framing is decided here and nowhere else, RFC 9112, 6.3 without its allowances: one length or one
`chunked`, never both, never twice.
"""

from __future__ import annotations

from re import Match
from typing import Final

import httptools

from mcpost.http11.errors import Malformed
from mcpost.http11.grammar import HOST
from mcpost.http11.limits import MessageLimits

__all__ = ("CHUNKED", "UNTIL_CLOSE", "Request", "Response", "parse_request", "parse_response")

CHUNKED: Final = -1
"""The `length` of a chunked body."""

UNTIL_CLOSE: Final = -2
"""The `length` of a response body that ends with its connection."""

_METHODS = {name.encode(): name for name in ("DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT")}

# Fifteen digits are below 2**53 and far above any limit.
_MAX_LENGTH_DIGITS = 15


class _Fields:
    """What both heads have; llhttp calls `on_header` for each line.

    Without slots: a default of the class costs nothing where the field is not sent.
    """

    host: bytes | None = None
    """The `Host`; `None` where there is none."""
    length = 0
    """Bytes of the body, `CHUNKED` or `UNTIL_CLOSE`."""
    problem: str | None = None
    coding: bytes | None = None
    expect: bytes | None = None
    _connection: bytes | None = None
    _lengths: bytes | None = None

    headers: list[tuple[bytes, bytes]]
    """Header lines in their order, names in lower case, values without outer blanks."""
    minor: int
    """1 for HTTP/1.1, 0 for HTTP/1.0."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header line."""
        name = name.lower()
        # llhttp leaves the blanks at the end; other white space cannot be there.
        value = value.rstrip()
        self.headers.append((name, value))
        if name in _SPECIAL:
            _SPECIAL[name](self, value)

    def _see_host(self, value: bytes) -> None:
        if self.host is not None:
            self.problem = "there is more than one Host"
        elif not HOST.fullmatch(value):
            self.problem = "the Host is not a host and a port"
        self.host = value

    def _see_length(self, value: bytes) -> None:
        if self._lengths is not None:
            self.problem = "there is more than one Content-Length"
        # isdigit() of bytes knows the ten ASCII digits only.
        elif not value.isdigit() or len(value) > _MAX_LENGTH_DIGITS:
            self.problem = "the Content-Length is not a number of bytes"
        self._lengths = value

    def _see_coding(self, value: bytes) -> None:
        if self.coding is not None:
            self.problem = "there is more than one Transfer-Encoding"
        self.coding = value.lower()

    def _see_connection(self, value: bytes) -> None:
        value = value.lower()
        self._connection = value if self._connection is None else self._connection + b"," + value

    def _see_expect(self, value: bytes) -> None:
        if self.expect is not None:
            self.problem = "there is more than one Expect"
        self.expect = value.lower()

    def connection_options(self) -> frozenset[bytes]:
        """The options that `Connection` names, in lower case."""
        if self._connection is None:
            return frozenset()
        return frozenset(option.strip() for option in self._connection.split(b","))

    def _framed_length(self, minor: int) -> int | None:
        """Length of the body, `CHUNKED`, or `None` where the head names neither."""
        if self.problem:
            raise Malformed(400, self.problem)
        if self.coding is not None:
            if self._lengths is not None:
                raise Malformed(400, "there are a Content-Length and a Transfer-Encoding")
            if minor == 0:
                raise Malformed(400, "HTTP/1.0 has no Transfer-Encoding")
            if self.coding != b"chunked":
                raise Malformed(501, "the only transfer coding that is known is chunked")
            return CHUNKED
        return None if self._lengths is None else int(self._lengths)


_SPECIAL = {
    b"host": _Fields._see_host,
    b"content-length": _Fields._see_length,
    b"transfer-encoding": _Fields._see_coding,
    b"connection": _Fields._see_connection,
    b"expect": _Fields._see_expect,
}


class Request(_Fields):
    """The head of a request."""

    peer: str | None = None
    """Address of the client, `None` for a Unix socket."""

    def __init__(self, method: bytes, target: bytes, minor: int) -> None:
        self.headers = []
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
        length = self._framed_length(self.minor)
        if length is not None:
            self.length = length
        if self.minor == 1:
            if self.host is None:
                raise Malformed(400, "there is no Host")
            if self._connection is not None:
                self.keep_alive = b"close" not in self.connection_options()
            if self.expect is not None and self.expect != b"100-continue":
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
        if not authority or authority.lower() != (self.host or b"").lower():
            raise Malformed(400, "the host of the request target is not the Host")


class Response(_Fields):
    """The head of a response."""

    keep_alive = False
    """Whether the connection can be used again after this response."""

    def __init__(self, status: int, minor: int) -> None:
        self.headers = []
        self.status = status
        """The status, 100 to 599."""
        self.minor = minor

    def frame(self, method: str) -> None:
        """Decide where the body ends.

        Args:
            method: Method of the request that is answered; HEAD has no body.

        Raises:
            Malformed: The rules at the head of this file, or a body where none may be.
        """
        length = self._framed_length(self.minor)
        status = self.status
        if status == 204 or status < 200:
            # RFC 9110, 8.6 and RFC 9112, 6.1: neither field may be sent here; what follows would
            # be a body for one reader and a response for the next.
            if length is not None and length != 0:
                raise Malformed(400, f"a {status} response announces a body")
        elif method == "HEAD" or status == 304:
            pass
        else:
            self.length = UNTIL_CLOSE if length is None else length
        if self.minor == 1 and self.length != UNTIL_CLOSE:
            self.keep_alive = self._connection is None or b"close" not in self.connection_options()


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
    _parse(httptools.HttpRequestParser(request), data, start, end)
    if len(request.headers) > limits.max_fields:
        raise Malformed(431, f"there are more than {limits.max_fields} header lines")
    request.frame()
    return request


def parse_response(
    data: bytes, match: Match[bytes], method: str, limits: MessageLimits
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
    _parse(httptools.HttpResponseParser(response), data, start, end)
    if len(response.headers) > limits.max_fields:
        raise Malformed(431, f"there are more than {limits.max_fields} header lines")
    response.frame(method)
    return response


def _parse(
    parser: httptools.HttpRequestParser | httptools.HttpResponseParser,
    data: bytes,
    start: int,
    end: int,
) -> None:
    whole = start == 0 and end == len(data)
    try:
        parser.feed_data(data if whole else data[start:end])
    except httptools.HttpParserUpgrade:
        # CONNECT, or an Upgrade: llhttp stops here. The target of the first is refused by
        # `Request.frame`; the second is ignored, as RFC 9110, 7.8 allows.
        pass
    except httptools.HttpParserInvalidMethodError as error:
        raise Malformed(501, "the method is not known") from error
    except httptools.HttpParserError as error:
        raise Malformed(400, str(error)) from error
