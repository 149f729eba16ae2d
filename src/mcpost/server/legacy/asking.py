"""Questions on the earlier revisions: requests to the client, while the call goes on.

Spec: 2025-11-25, client/elicitation, client/sampling, client/roots (L-03).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from mcpost.errors import InternalError, InvalidParams, InvalidRequest
from mcpost.server.questions import BadAnswer, InputRequired, Question
from mcpost.wire.jsonrpc import Id, Response, encode_notification, encode_request
from mcpost.wire.versions import LEGACY

__all__ = ("Asked", "Outlet", "Requests")


class Outlet(Protocol):
    """Where the words of one call go."""

    @property
    def can_ask(self) -> bool:
        """Whether requests to the client can go here."""
        ...

    def say(self, message: bytes) -> None:
        """Take one encoded message; does not wait."""

    def hang_up(self) -> None:
        """Let the connection go and keep the call, where the client can come back."""


class Asked:
    """The requests to one client that wait for its answers."""

    __slots__ = ("_count", "_open")

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[Id, asyncio.Future[dict[str, Any]]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def send(
        self, method: str, params: Mapping[str, Any], outlet: Outlet
    ) -> tuple[Id, asyncio.Future[dict[str, Any]]]:
        """Send a request.

        Returns:
            Its id, and the future of its result; whoever waits calls `forget` afterwards.
        """
        self._count += 1
        request_id = f"server-{self._count}"
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[request_id] = future
        outlet.say(encode_request(request_id, method, params))
        return request_id, future

    def take(self, response: Response) -> None:
        """Take the client's answer; one that nobody waits for (any more) is passed over."""
        future = None if response.id is None else self._open.get(response.id)
        if future is None or future.done():
            return
        if response.error is not None:
            future.set_exception(
                InvalidParams(f"the client answered with an error: {response.error.message}")
            )
        else:
            future.set_result(response.result or {})

    def forget(self, request_id: Id, outlet: Outlet) -> None:
        """Wait no longer; the client is told if its answer is not needed any more."""
        future = self._open.pop(request_id, None)
        if future is None or (future.done() and not future.cancelled()):
            return
        future.cancel()
        params = {"requestId": request_id, "reason": "the call has ended"}
        outlet.say(encode_notification("notifications/cancelled", params))

    def close(self) -> None:
        """Fail what is open: the client is gone."""
        for future in self._open.values():
            if not future.done():
                future.set_exception(InternalError("the session ended"))


class Requests:
    """How the questions of one call reach the client (`mcpost.server.call.Inputs`).

    Args:
        asked: The session's open requests.
        outlet: The call's own stream.
        version: The version of the session.
    """

    __slots__ = ("_answers", "_asked", "_outlet", "_state", "_version")

    def __init__(self, asked: Asked, outlet: Outlet, version: str) -> None:
        self._asked = asked
        self._outlet = outlet
        self._version = version
        self._state: Any = None
        self._answers: dict[str, Any] = {}

    @property
    def state(self) -> Any:
        """What the handler returned with its questions."""
        return self._state

    @property
    def answers(self) -> Mapping[str, Any]:
        """All answers so far, as received."""
        return self._answers

    async def carry(self, required: InputRequired) -> None:
        """Ask what a handler returned, and keep its state for its next run."""
        await self.ask(required.questions)
        self._state = required.state

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Send the questions at once, and wait for all answers.

        Raises:
            InvalidParams: The client answered one with an error, or not in the form asked for.
            InvalidRequest: The client takes no stream for this call, so it cannot be asked.
        """
        if not questions:
            return {}
        if not self._outlet.can_ask:
            raise InvalidRequest(
                "this call has a question for the client: send Accept: text/event-stream"
            )
        sent = {
            key: self._asked.send(question.method, self._params(question), self._outlet)
            for key, question in questions.items()
        }
        try:
            for key, (_, future) in sent.items():
                self._answers[key] = await future
        finally:
            for request_id, _ in sent.values():
                self._asked.forget(request_id, self._outlet)
        return {key: self._parse(key, question) for key, question in questions.items()}

    def _params(self, question: Question) -> Mapping[str, Any]:
        params = question.params()
        if "mode" in params and self._version != LEGACY[0]:
            # Modes came with 2025-11-25; before it every elicitation was a form.
            return {name: value for name, value in params.items() if name != "mode"}
        return params

    def _parse(self, key: str, question: Question) -> Any:
        try:
            return question.parse(self._answers[key])
        except BadAnswer as error:
            raise InvalidParams(f"the client's answer to {question.method}: {error}") from error
