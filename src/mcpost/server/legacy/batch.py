"""Several messages in one JSON array; only revision 2025-03-26 has that.

Spec: 2025-03-26, basic/index, "Batching"; JSON-RPC 2.0, 6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from mcpost.errors import InvalidRequest, ParseError, WireError
from mcpost.server.call import Headers
from mcpost.server.legacy.asking import Outlet
from mcpost.server.legacy.session import Session
from mcpost.wire.jsonrpc import Notification, Request, Response, decode_answer, encode_error

__all__ = ("Item", "answer_batch", "is_batch", "read_batch")

Item = Request | Notification | Response | WireError


def is_batch(body: bytes) -> bool:
    """Whether a body is an array, if it is JSON at all."""
    return body.lstrip(b" \t\r\n").startswith(b"[")


def read_batch(body: bytes, limit: int) -> list[Item]:
    """Read the messages of a batch.

    Args:
        body: A JSON array.
        limit: The most messages it may have.

    Returns:
        The messages; what is none has its error in its place.

    Raises:
        ParseError: -32700; it is not JSON.
        InvalidRequest: -32600; it is empty, or has too many messages.
    """
    try:
        parts = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"the body is not one JSON text in UTF-8: {error}") from error
    if not 0 < len(parts) <= limit:
        raise InvalidRequest(f"a batch has 1 to {limit} messages")
    return [_read(bytes(part)) for part in parts]


def _read(part: bytes) -> Item:
    try:
        message = decode_answer(part)
    except WireError as error:
        return error
    if isinstance(message, Request) and message.method == "initialize":
        return InvalidRequest("initialize stands alone", request_id=message.id)
    return message


async def answer_batch(
    session: Session, items: Sequence[Item], outlet: Outlet, headers: Headers = ()
) -> bytes:
    """Answer a batch; its requests run at once.

    Args:
        session: The session.
        items: What `read_batch` gave.
        outlet: Where notifications and requests of the calls go.
        headers: As for `Session.begin`.

    Returns:
        The array of the responses, in the order of their requests; those of cancelled calls are
        left out.
    """
    answers: list[bytes | asyncio.Task[bytes | None]] = []
    for item in items:
        if isinstance(item, WireError):
            answers.append(encode_error(item))
        elif isinstance(item, Request):
            answer = session.begin(item, outlet, headers)
            if isinstance(answer, bytes):
                answers.append(answer)
            else:
                answers.append(asyncio.get_running_loop().create_task(answer))
        else:
            session.take(item)
    tasks = [each for each in answers if isinstance(each, asyncio.Task)]
    if tasks:
        await asyncio.wait(tasks)
    found = [each if isinstance(each, bytes) else _result(each) for each in answers]
    return b"[%b]" % b",".join(each for each in found if each is not None)


def _result(task: asyncio.Task[bytes | None]) -> bytes | None:
    return None if task.cancelled() else task.result()
