"""Questions on this revision: by running the handler again.

There is no channel on which a server could ask while it works. So a handler that asks is left where
it stands, the questions are the result (`input_required`), and the caller repeats its request with
the answers. The handler then runs from its start, and every question that has its answer returns at
once. The answers so far travel in the sealed `requestState`.

Questions that are asked at the same time (by `ctx.ask`, or in tasks that run together) go out in
one round.

Spec: patterns/mrtr (P-06).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcpost.errors import InvalidParams, UsageError
from mcpost.limits import ServerLimits
from mcpost.server.call import Call
from mcpost.server.questions import BadAnswer, InputRequired, Question
from mcpost.server.sealing import Sealer, binding

__all__ = ("METHODS", "LeftToAsk", "Replay")

METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The methods whose result may be `input_required`."""


class LeftToAsk(BaseException):
    """Leaves a handler where it asked; no `except Exception` of its holds it up."""


class Replay:
    """The questions of one request, and the answers that it brought."""

    __slots__ = ("_answers", "_binding", "_limits", "_rounds", "_sealer", "_state", "_used", "pending")

    def __init__(self, call: Call, sealer: Sealer, limits: ServerLimits) -> None:
        """Take the answers of a request.

        Raises:
            InvalidParams: -32602; its state is not ours for this call, or `inputResponses` is no
                object.
        """
        self._sealer = sealer
        self._limits = limits
        self._binding: bytes | None = None
        self._answers: dict[str, Any] = {}
        self._used: dict[str, Any] = {}
        self._rounds = 0
        self._state: Any = None
        self.pending: dict[str, Question] = {}
        """What has been asked and has no answer."""
        if "requestState" in call.params:
            opened = sealer.open(call.params["requestState"], self._bound(call))
            self._answers = opened["a"]
            self._rounds = opened["r"]
            self._state = opened.get("s")
        if "inputResponses" in call.params:
            responses = call.params["inputResponses"]
            if type(responses) is not dict:
                raise InvalidParams('"inputResponses" has to be an object')
            self._answers = {**self._answers, **responses}

    def _bound(self, call: Call) -> bytes:
        if self._binding is None:
            principal = None if call.principal is None else call.principal.id
            self._binding = binding(principal, call.method, call.params)
        return self._binding

    @property
    def state(self) -> Any:
        """What the handler kept in the round before."""
        return self._state

    @property
    def answers(self) -> Mapping[str, Any]:
        """All answers, as received."""
        return self._answers

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Give the answers, or leave the handler.

        Raises:
            LeftToAsk: An answer is missing or not of the form that was asked for.
        """
        parsed: dict[str, Any] = {}
        missing: dict[str, Question] = {}
        for key, question in questions.items():
            try:
                parsed[key] = question.parse(self._answers[key])
                self._used[key] = self._answers[key]
            except (KeyError, BadAnswer):
                missing[key] = question
        if missing:
            self.pending.update(missing)
            # Questions of tasks that run beside this one shall be in the same round.
            await asyncio.sleep(0)
            raise LeftToAsk
        return parsed

    def result(self, call: Call, required: InputRequired | None = None) -> dict[str, Any]:
        """Make the `input_required` result of what has been asked.

        Args:
            call: The request.
            required: What the handler returned, where it keeps its state itself.

        Raises:
            InvalidParams: The call has gone round too often.
            UsageError: There is neither a question nor a state.
        """
        questions = self.pending if required is None else required.questions
        state = self._state if required is None else required.state
        if not questions and state is None:
            raise UsageError("InputRequired needs a question or a state")
        if self._rounds >= self._limits.max_input_rounds:
            raise InvalidParams(
                f"this call has asked {self._rounds} times without coming to an end"
            )
        kept = self._used if required is None else self._answers
        content = {"a": kept, "r": self._rounds + 1, "s": state}
        result: dict[str, Any] = {"resultType": "input_required"}
        if questions:
            result["inputRequests"] = {
                key: question.request() for key, question in questions.items()
            }
        result["requestState"] = self._sealer.seal(content, self._bound(call))
        return result
