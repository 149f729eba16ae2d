"""Questions on this revision: by running the handler again.

There is no channel on which a server could ask while it works. So a handler that asks is left where
it stands, the questions are the result (`input_required`), and the caller repeats its request with
the answers. The handler then runs from its start, and every question that has its answer returns at
once. The answers so far travel in the sealed `requestState`; an answer that was used and sealed
stays as it was given, whatever a later round says.

Questions that are asked at the same time (by `ctx.ask`, or in tasks that run together) go out in
one round.

Spec: patterns/mrtr (P-06).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcpost.errors import InternalError, InvalidParams
from mcpost.limits import ServerLimits
from mcpost.server.call import Call
from mcpost.server.questions import BadAnswer, InputRequired, Question, check_capabilities
from mcpost.server.sealing import Sealer, binding

__all__ = ("METHODS", "LeftToAsk", "Replay")

METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The methods whose result may be `input_required`."""


class LeftToAsk(BaseException):
    """Leaves a handler where it asked; no `except Exception` of its holds it up."""


class Replay:
    """The questions of one request, and the answers that it brought.

    Args:
        call: The request.
        sealer: Seals and opens its state.
        limits: Its `max_input_rounds`.

    Raises:
        InvalidParams: -32602; its state is not ours for this call, or `inputResponses` is no
            object.
    """

    __slots__ = ("_answers", "_call", "_rounds", "_sealer", "_state", "_used", "limits", "pending")

    def __init__(self, call: Call, sealer: Sealer, limits: ServerLimits) -> None:
        self._call = call
        self._sealer = sealer
        self.limits = limits
        self._answers: Mapping[str, Any] = {}
        self._used: dict[str, Any] = {}
        self._rounds = 0
        self._state: Any = None
        self.pending: dict[str, Question] = {}
        """What has been asked and has no answer."""
        params = call.params
        if "requestState" in params or "inputResponses" in params:
            self._take(params)

    def _take(self, params: Mapping[str, Any]) -> None:
        responses = params.get("inputResponses", {})
        if type(responses) is not dict:
            raise InvalidParams('"inputResponses" has to be an object')
        self._answers = responses
        if "requestState" in params:
            opened = self._sealer.open(params["requestState"], self._binding())
            self._answers = {**responses, **opened["a"]}
            self._rounds = opened["r"]
            self._state = opened["s"]

    def _binding(self) -> bytes:
        principal = self._call.principal
        return binding(
            None if principal is None else principal.id, self._call.method, self._call.params
        )

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

    def result(self, required: InputRequired | None = None) -> dict[str, Any]:
        """Make the `input_required` result of what has been asked.

        Args:
            required: What the handler returned, where it keeps its state itself.

        Raises:
            InternalError: The call has gone round too often, its state is too large, or there is
                neither a question nor a state.
            MissingCapability: The caller has not declared what a question needs (T-21).
        """
        questions: Mapping[str, Question] = self.pending
        state, kept = self._state, self._used
        if required is not None:
            questions, state, kept = required.questions, required.state, {}
            for question in questions.values():
                missing = check_capabilities(
                    self._call.meta.client_capabilities, question.capability()
                )
                if missing is not None:
                    raise missing
            if not questions and state is None:
                raise InternalError("InputRequired needs a question or a state")
            # What the handler has not asked for again is what it will look for in `ctx.answers`.
            kept = {key: value for key, value in self._answers.items() if key not in questions}
        if self._rounds >= self.limits.max_input_rounds:
            raise InternalError(
                f"this call has asked for input {self._rounds} times and is not at its end"
            )
        result: dict[str, Any] = {"resultType": "input_required"}
        if questions:
            result["inputRequests"] = {
                key: question.request() for key, question in questions.items()
            }
        content = {"a": kept, "r": self._rounds + 1, "s": state}
        result["requestState"] = self._sealer.seal(content, self._binding())
        return result
