"""One request, whatever wire it came on, with the means to answer it.

Spec: basic/index (J-04, J-05); patterns/mrtr (P-06).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcpost.server.progress import ProgressGate
from mcpost.server.questions import InputRequired, Question
from mcpost.wire import jsonrpc, meta
from mcpost.wire.versions import Era

__all__ = ("Call", "Carried", "Inputs", "Principal")

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, as the authentication of the endpoint found out."""

    id: str
    """Unique among the callers of this server; `requestState` is bound to it."""
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict)


class Inputs(Protocol):
    """How the questions of a handler reach the caller; each era has its own way."""

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask, and give the parsed answers by key."""
        ...

    @property
    def state(self) -> Any:
        """What the handler put into `InputRequired.state` in the round before."""
        ...

    @property
    def answers(self) -> Mapping[str, Any]:
        """All answers so far, as received."""
        ...


class Carried:
    """What a handler returned as `InputRequired`, carried to its next run while its call goes on.

    For eras that have a way to ask while a call is answered.

    Args:
        inputs: That way.
    """

    __slots__ = ("_answers", "_inputs", "_state")

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._answers: dict[str, Any] = {}
        self._state: Any = None

    async def carry(self, required: InputRequired) -> None:
        """Ask what was returned, and keep its state and the answers."""
        answers = await self._inputs.ask(required.questions)
        for key, question in required.questions.items():
            self._answers[key] = question.write(answers[key])
        self._state = required.state

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask as the era does."""
        return await self._inputs.ask(questions)

    @property
    def state(self) -> Any:
        """What the handler kept in the run before."""
        return self._state

    @property
    def answers(self) -> Mapping[str, Any]:
        """All answers so far."""
        return self._answers


class Call:
    """One request, whatever wire it came on.

    Args:
        request: The request.
        request_meta: What its `_meta` says.
        notify: Puts one encoded notification onto this request's stream; called on the loop, and
            never once the call is closed.
        era: Under which rules it is answered.
        headers: Its header lines, names in lower case.
        principal: Who calls.
        inputs: How its handler's questions are answered; `None` means the replay of this revision.
    """

    __slots__ = (
        "cancelled",
        "closed",
        "era",
        "gate",
        "hang_up",
        "headers",
        "id",
        "inputs",
        "meta",
        "method",
        "notify",
        "params",
        "principal",
    )

    def __init__(
        self,
        request: jsonrpc.Request,
        request_meta: meta.RequestMeta,
        notify: Callable[[bytes], None],
        *,
        era: Era = Era.MODERN,
        headers: Headers = (),
        principal: Principal | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        self.id = request.id
        self.method = request.method
        self.params = request.params
        self.meta = request_meta
        self.notify = notify
        self.era = era
        self.headers = headers
        self.principal = principal
        self.inputs = inputs
        self.cancelled = False
        """Whether the caller has left or cancelled; readable from any thread."""
        self.closed = False
        """Whether the handler is done; nothing but the answer follows."""
        self.gate: ProgressGate | None = None
        """Where its progress goes through; made for a handler that takes a `Context`."""
        self.hang_up: Callable[[], None] | None = None
        """Ends the connection of this call and keeps the call, where a client can come back."""

    def close(self) -> None:
        """Tell that the handler is done: what waits is sent, and nothing from now on."""
        if self.gate is not None:
            self.gate.close()
        self.closed = True
