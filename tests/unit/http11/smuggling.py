"""Requests and responses that two readers could read differently, as bytes.

Each row is a name, the bytes, and for a request the status of the refusal. In a request `SMUGGLED`
stands where a second one would begin if the first were read the other way: it must never be served.
"""

from __future__ import annotations

__all__ = ("REQUESTS", "RESPONSES", "SMUGGLED")

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

_LINE = b"POST / HTTP/1.1\r\n"
_TE = b"Transfer-Encoding: chunked\r\n"
_ENDED = b"0\r\n\r\n" + SMUGGLED


def _head(*lines: bytes) -> bytes:
    """A head with a Host; each line as it is, its end included."""
    return _LINE + b"Host: a\r\n" + b"".join(lines) + b"\r\n"


def _chunks(data: bytes) -> bytes:
    return _head(_TE) + data


REQUESTS: list[tuple[str, bytes, int]] = [
    # Two lengths, RFC 9112, 6.1 and 6.3.
    ("CL.TE", _head(b"Content-Length: 6\r\n", _TE) + _ENDED, 400),
    ("TE.CL", _head(_TE, b"Content-Length: 4\r\n") + _ENDED, 400),
    ("CL.TE, lengths that agree", _head(b"Content-Length: 5\r\n", _TE) + _ENDED, 400),
    ("CL.CL", _head(b"Content-Length: 0\r\n", b"Content-Length: 9\r\n") + SMUGGLED, 400),
    ("CL.CL, equal", _head(2 * b"Content-Length: 0\r\n") + SMUGGLED, 400),
    ("CL.CL, another case", _head(b"content-length: 0\r\n", b"CONTENT-LENGTH: 9\r\n"), 400),
    ("CL list", _head(b"Content-Length: 0, 9\r\n") + SMUGGLED, 400),
    ("CL list, equal", _head(b"Content-Length: 0, 0\r\n") + SMUGGLED, 400),
    ("TE.TE", _head(2 * _TE) + _ENDED, 400),
    ("TE.TE, one unknown", _head(_TE, b"Transfer-Encoding: x\r\n") + _ENDED, 400),
    # A length that is no number.
    ("CL with a sign", _head(b"Content-Length: +0\r\n") + SMUGGLED, 400),
    ("CL below zero", _head(b"Content-Length: -1\r\n") + SMUGGLED, 400),
    ("CL in hex", _head(b"Content-Length: 0x0\r\n") + SMUGGLED, 400),
    ("CL with a digit group", _head(b"Content-Length: 1_0\r\n") + SMUGGLED, 400),
    ("CL with a point", _head(b"Content-Length: 0.0\r\n") + SMUGGLED, 400),
    ("CL with an exponent", _head(b"Content-Length: 0e1\r\n") + SMUGGLED, 400),
    ("CL empty", _head(b"Content-Length:\r\n") + SMUGGLED, 400),
    ("CL with a blank inside", _head(b"Content-Length: 0 9\r\n") + SMUGGLED, 400),
    ("CL with a semicolon", _head(b"Content-Length: 0;9\r\n") + SMUGGLED, 400),
    ("CL in quotes", _head(b'Content-Length: "0"\r\n') + SMUGGLED, 400),
    ("CL above 64 bits", _head(b"Content-Length: 18446744073709551616\r\n") + SMUGGLED, 400),
    ("CL of twenty zeros", _head(b"Content-Length: " + 20 * b"0" + b"\r\n") + SMUGGLED, 400),
    ("CL in other digits", _head(b"Content-Length: \xd9\xa0\r\n") + SMUGGLED, 400),
    # A coding that is not plainly chunked.
    ("TE xchunked", _head(b"Transfer-Encoding: xchunked\r\n") + _ENDED, 400),
    ("TE identity", _head(b"Transfer-Encoding: identity\r\n") + SMUGGLED, 400),
    ("TE chunked, then identity", _head(b"Transfer-Encoding: chunked, identity\r\n") + _ENDED, 400),
    ("TE chunked twice in a list", _head(b"Transfer-Encoding: chunked, chunked\r\n"), 400),
    ("TE gzip, chunked", _head(b"Transfer-Encoding: gzip, chunked\r\n") + _ENDED, 501),
    ("TE in quotes", _head(b'Transfer-Encoding: "chunked"\r\n') + _ENDED, 400),
    ("TE with a parameter", _head(b"Transfer-Encoding: chunked;x=1\r\n") + _ENDED, 400),
    ("TE empty", _head(b"Transfer-Encoding:\r\n") + _ENDED, 400),
    ("TE with a comma before", _head(b"Transfer-Encoding: , chunked\r\n") + _ENDED, 501),
    ("TE behind a vertical tab", _head(b"Transfer-Encoding: \x0bchunked\r\n") + _ENDED, 400),
    ("TE behind a non-breaking blank", _head(b"Transfer-Encoding: \xa0chunked\r\n"), 400),
    ("TE in HTTP/1.0", b"POST / HTTP/1.0\r\n" + _TE + b"\r\n" + _ENDED, 400),
    # Names that hide.
    ("blank before the colon", _head(b"Content-Length : 35\r\n") + SMUGGLED, 400),
    ("tab before the colon", _head(b"Transfer-Encoding\t: chunked\r\n") + _ENDED, 400),
    ("blank before the name", _head(b" Content-Length: 35\r\n") + SMUGGLED, 400),
    ("blank in the name", _head(b"Transfer Encoding: chunked\r\n") + _ENDED, 400),
    ("NUL in the name", _head(b"Transfer\0Encoding: chunked\r\n") + _ENDED, 400),
    ("a name above ASCII", _head(b"Transfer-Encoding\xff: chunked\r\n") + _ENDED, 400),
    ("no name", _head(b": chunked\r\n") + SMUGGLED, 400),
    ("no colon", _head(b"Transfer-Encoding chunked\r\n") + _ENDED, 400),
    ("first line folded", _LINE + b" x: y\r\nHost: a\r\n\r\n" + SMUGGLED, 400),
    # Lines that end in their own way.
    ("LF for CRLF, all lines", _head(b"Content-Length: 0\r\n").replace(b"\r", b""), 400),
    ("LF after a header", _head(b"X: y\nContent-Length: 35\r\n") + SMUGGLED, 400),
    ("LF after the request line", b"POST / HTTP/1.1\nHost: a\r\n\r\n" + SMUGGLED, 400),
    ("LF as the empty line", _LINE + b"Host: a\r\n\n" + SMUGGLED, 400),
    ("CR for CRLF", _head(b"X: y\rContent-Length: 35\r\n") + SMUGGLED, 400),
    ("CR CR LF", _head(b"X: y\r\r\n") + SMUGGLED, 400),
    ("CR as the empty line", _LINE + b"Host: a\r\n\r" + SMUGGLED, 400),
    ("CR before the name", _head(b"\rContent-Length: 35\r\n") + SMUGGLED, 400),
    ("folded coding", _head(b"Transfer-Encoding:\r\n chunked\r\n") + _ENDED, 400),
    ("folded value", _head(b"X: y\r\n\tContent-Length: 35\r\n") + SMUGGLED, 400),
    # Bytes that no value has.
    ("NUL in a value", _head(b"X: a\0b\r\n") + SMUGGLED, 400),
    ("escape in a value", _head(b"X: a\x1bb\r\n") + SMUGGLED, 400),
    ("delete in a value", _head(b"X: a\x7fb\r\n") + SMUGGLED, 400),
    # Request lines.
    ("HTTP/0.9", b"GET /\r\n\r\n" + SMUGGLED, 400),
    ("HTTP/1.2", b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
    ("HTTP/2.0", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ("HTTP/0.9 spelled", b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
    ("HTTP/1.10", b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
    ("version in lower case", b"GET / http/1.1\r\nHost: a\r\n\r\n", 400),
    ("another protocol", b"GET / RTSP/1.0\r\nHost: a\r\n\r\n", 400),
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("two blanks before the target", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("tab before the target", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("blank after the version", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
    ("blank before the method", b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("blank in the target", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("NUL in the target", b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("a target above ASCII", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("a fragment", b"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("a target without a slash", b"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("an asterisk, not for OPTIONS", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("a method in lower case", b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ("an unknown method", b"SMUGGLE / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ("a method that is no token", b"GE(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("a tunnel", b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n" + SMUGGLED, 400),
    # Hosts.
    ("no Host", b"GET / HTTP/1.1\r\n\r\n", 400),
    ("two Hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("two Hosts, equal", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("Hosts in a list", b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
    ("a Host with a path", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ("a Host with a user", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
    ("a Host with a port that is none", b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
    ("a target of another host", b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("a target of another scheme", b"GET file:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    # Chunks, RFC 9112, 7.1.
    ("chunk size with a sign", _chunks(b"+1\r\na\r\n") + _ENDED, 400),
    ("chunk size below zero", _chunks(b"-1\r\na\r\n") + _ENDED, 400),
    ("chunk size with 0x", _chunks(b"0x1\r\na\r\n") + _ENDED, 400),
    ("chunk size with a digit group", _chunks(b"1_0\r\n" + 16 * b"a" + b"\r\n") + _ENDED, 400),
    ("chunk size empty", _chunks(b"\r\n") + _ENDED, 400),
    ("chunk size empty, with an extension", _chunks(b";a\r\n") + _ENDED, 400),
    ("chunk size above 64 bits", _chunks(b"10000000000000001\r\na\r\n") + _ENDED, 400),
    ("chunk size above 32 bits", _chunks(b"100000001\r\na\r\n") + _ENDED, 400),
    ("chunk size behind a blank", _chunks(b" 1\r\na\r\n") + _ENDED, 400),
    ("chunk size before a blank", _chunks(b"1 \r\na\r\n") + _ENDED, 400),
    ("chunk size, a blank, an extension", _chunks(b"1 ;x\r\na\r\n") + _ENDED, 400),
    ("chunk size before LF", _chunks(b"1\na\r\n") + _ENDED, 400),
    ("chunk size before CR", _chunks(b"1\ra\r\n") + _ENDED, 400),
    ("LF in an extension", _chunks(b"1;a\nb\r\na\r\n") + _ENDED, 400),
    ("CR in an extension", _chunks(b"1;a\rb\r\na\r\n") + _ENDED, 400),
    ("NUL in an extension", _chunks(b"1;a\0\r\na\r\n") + _ENDED, 400),
    ("line end in a quoted extension", _chunks(b'1;a="\r\na\r\n"\r\n') + _ENDED, 400),
    ("chunk longer than it says", _chunks(b"1\r\nab\r\n") + _ENDED, 400),
    ("chunk shorter than it says", _chunks(b"3\r\na\r\n") + _ENDED, 400),
    ("chunk ends with LF", _chunks(b"1\r\na\n") + _ENDED, 400),
    ("chunk without an end", _chunks(b"1\r\na") + _ENDED, 400),
    ("last chunk ends with LF", _chunks(b"0\r\n\n") + SMUGGLED, 400),
    ("last chunk with LF alone", _chunks(b"0\n\n") + SMUGGLED, 400),
    ("trailer", _chunks(b"0\r\nX: y\r\n\r\n") + SMUGGLED, 400),
    ("trailer with a length", _chunks(b"0\r\nContent-Length: 35\r\n\r\n") + SMUGGLED, 400),
    # What is not HTTP.
    ("nothing but empty lines", b"\r\n\r\n" + SMUGGLED, 400),
    ("LF before the request", b"\n" + SMUGGLED, 400),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ("an expectation that is unknown", _head(b"Expect: 200-ok\r\n") + SMUGGLED, 417),
    ("two expectations", _head(2 * b"Expect: 100-continue\r\n") + SMUGGLED, 400),
]

_OK = b"HTTP/1.1 200 OK\r\n"

RESPONSES: list[tuple[str, bytes]] = [
    ("CL.TE", _OK + b"Content-Length: 5\r\n" + _TE + b"\r\n0\r\n\r\n"),
    ("TE.CL", _OK + _TE + b"Content-Length: 5\r\n\r\n0\r\n\r\n"),
    ("CL.CL", _OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    ("CL.CL, equal", _OK + 2 * b"Content-Length: 2\r\n" + b"\r\nab"),
    ("CL list", _OK + b"Content-Length: 2, 2\r\n\r\nab"),
    ("CL with a sign", _OK + b"Content-Length: +2\r\n\r\nab"),
    ("CL empty", _OK + b"Content-Length:\r\n\r\nab"),
    ("TE gzip", _OK + b"Transfer-Encoding: gzip\r\n\r\nab"),
    ("TE gzip, chunked", _OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("TE xchunked", _OK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("TE in HTTP/1.0", b"HTTP/1.0 200 OK\r\n" + _TE + b"\r\n0\r\n\r\n"),
    ("204 with a length", b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nab"),
    ("204 with chunks", b"HTTP/1.1 204 No\r\n" + _TE + b"\r\n0\r\n\r\n"),
    ("interim with a length", b"HTTP/1.1 100 Go\r\nContent-Length: 2\r\n\r\nab"),
    ("another protocol", b"HTTP/1.1 101 Switch\r\nUpgrade: x\r\n\r\n"),
    ("blank before the colon", _OK + b"Content-Length : 2\r\n\r\nab"),
    ("folded", _OK + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n"),
    ("LF for CRLF", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    ("LF after a header", _OK + b"X: y\nContent-Length: 0\r\n\r\n"),
    ("CR alone", _OK + b"X: y\rZ: z\r\nContent-Length: 0\r\n\r\n"),
    ("NUL in a value", _OK + b"X: \0\r\nContent-Length: 0\r\n\r\n"),
    ("control character in the reason", b"HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n"),
    ("HTTP/1.2", b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status of two digits", b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status of four digits", b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status below 100", b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status above 599", b"HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n"),
    ("an empty line first", b"\r\n" + _OK + b"Content-Length: 0\r\n\r\n"),
    ("HTTP/0.9", b"<html>\r\n\r\n"),
    ("bad chunk size", _OK + _TE + b"\r\n0x0\r\n\r\n"),
    ("trailer", _OK + _TE + b"\r\n0\r\nX: y\r\n\r\n"),
]
