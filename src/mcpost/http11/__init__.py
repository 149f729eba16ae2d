"""HTTP/1.1 connections on `asyncio.Protocol`, with llhttp (httptools) as the parser.

Knows nothing of MCP: it is given a request by a client and an answer by an application, or the
other way round. Plain functions all the way; no coroutine, task, queue or future for a request.

| file | what it decides |
| --- | --- |
| `limits` | every bound, with unit and precedent |
| `errors` | what a peer, or the caller, did wrong |
| `grammar` | which bytes are a message head; which rule the others break |
| `head` | bytes of a head -> `Request`, `Response`; where the body ends |
| `body` | sized, chunked and close-delimited bodies -> payload |
| `encode` | status and headers -> bytes |
| `hub` | what the connections of one loop share: deadlines, joined writes |
| `connection` | what both ends do alike: writing, back-pressure |
| `exchange`, `server` | the server's side of one answer, and of a connection |
| `listener` | sockets, TLS, drain |
| `call`, `client`, `pool` | the client's side of one request, of a connection, of an upstream |
"""
