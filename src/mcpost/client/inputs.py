"""What a server may ask of this client: a person, a model, the roots.

A handler that is there declares its capability by being there; what was not declared is not
answered. The handlers run in the task of the call that needs them, one after the other.

Spec: patterns/mrtr; client/elicitation, client/sampling, client/roots (P-06).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path, PurePath
from typing import Any, Final, Literal

import msgspec

from mcpost.errors import BadReply, UsageError
from mcpost.schema import compile_schema
from mcpost.types import ElicitResult, Root, RootsResult, SampleResult, SamplingMessage, TextContent

__all__ = ("Elicitation", "Inputs", "OnElicit", "OnRoots", "OnSample", "Sampling")


class Elicitation(msgspec.Struct, rename="camel"):
    """A question to the person at this client."""

    message: str
    mode: Literal["form", "url"] = "form"
    requested_schema: dict[str, Any] | None = None
    """JSON Schema of the answer's content: an object with flat properties."""
    url: str | None = None
    """The page to open, in mode `url`: show it, and open it only with consent."""

    @property
    def defaults(self) -> dict[str, Any]:
        """The values that the schema proposes."""
        properties: dict[str, Any] | None = (self.requested_schema or {}).get("properties")
        if not isinstance(properties, dict):
            return {}
        return {
            name: each["default"]
            for name, each in properties.items()
            if isinstance(each, dict) and "default" in each
        }


class Sampling(msgspec.Struct, rename="camel"):
    """A question to the model at this client."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    model_preferences: dict[str, Any] | None = None
    include_context: str | None = None
    metadata: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None


Elicited = ElicitResult | Mapping[str, Any] | None
OnElicit = Callable[[Elicitation], Elicited | Awaitable[Elicited]]
"""Answers a question: a mapping accepts with this content, `None` declines."""

Sampled = SampleResult | Mapping[str, Any] | str
OnSample = Callable[[Sampling], Sampled | Awaitable[Sampled]]
"""Samples: a text, or the whole result."""

RootLike = Root | PurePath | str
OnRoots = Sequence[RootLike] | Callable[[], Sequence[RootLike] | Awaitable[Sequence[RootLike]]]
"""The roots: paths, `file:` URIs or `Root`s, or a function that gives them."""

_MODEL: Final = "client"


class Inputs:
    """The handlers of a client.

    Args:
        elicit: Answers forms.
        elicit_url: Answers requests to open a page.
        sample: Asks the model.
        roots: The roots.
    """

    def __init__(
        self,
        *,
        elicit: OnElicit | None = None,
        elicit_url: OnElicit | None = None,
        sample: OnSample | None = None,
        roots: OnRoots | None = None,
    ) -> None:
        self._elicit = elicit
        self._elicit_url = elicit_url
        self._sample = sample
        self._roots = roots

    def capabilities(self) -> dict[str, Any]:
        """The client capabilities that the handlers stand for."""
        declared: dict[str, Any] = {}
        modes = {"form": self._elicit, "url": self._elicit_url}
        if self._elicit or self._elicit_url:
            declared["elicitation"] = {mode: {} for mode, handler in modes.items() if handler}
        if self._sample is not None:
            declared["sampling"] = {}
        if self._roots is not None:
            declared["roots"] = {}
        return declared

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request of a server.

        Args:
            method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
            params: Its parameters.

        Returns:
            The result, as JSON.

        Raises:
            BadReply: The server asks for what was not declared, or asks it wrongly.
            UsageError: A handler's answer is none.
        """
        try:
            if method == "elicitation/create":
                return await self._answer_elicitation(msgspec.convert(params, Elicitation))
            if method == "sampling/createMessage" and self._sample is not None:
                return await self._answer_sampling(msgspec.convert(params, Sampling))
        except msgspec.ValidationError as error:
            raise BadReply(f"the server's {method} is malformed: {error}") from error
        if method == "roots/list" and self._roots is not None:
            return await self._answer_roots(self._roots)
        raise _undeclared(method)

    async def _answer_elicitation(self, question: Elicitation) -> dict[str, Any]:
        handler = self._elicit if question.mode == "form" else self._elicit_url
        if handler is None:
            raise _undeclared(f"elicitation/create (mode {question.mode})")
        said = handler(question)
        answer = await said if isawaitable(said) else said
        if answer is None:
            return {"action": "decline"}
        if isinstance(answer, ElicitResult):
            result: dict[str, Any] = msgspec.to_builtins(answer)
        else:
            result = {"action": "accept", "content": dict(answer)}
        if question.mode == "url":
            result.pop("content", None)
        elif result["action"] == "accept" and question.requested_schema is not None:
            problem = compile_schema(question.requested_schema).check(result.get("content", {}))
            if problem is not None:
                raise UsageError(f"the answer to {question.message!r} does not fit: {problem}")
        return result

    async def _answer_sampling(self, question: Sampling) -> dict[str, Any]:
        assert self._sample is not None
        said = self._sample(question)
        answer = await said if isawaitable(said) else said
        if isinstance(answer, str):
            answer = SampleResult("assistant", TextContent(answer), _MODEL, "endTurn")
        result: dict[str, Any] = msgspec.to_builtins(answer)
        return result

    async def _answer_roots(self, roots: OnRoots) -> dict[str, Any]:
        found: Any = roots
        if callable(roots):
            said = roots()
            found = await said if isawaitable(said) else said
        result: dict[str, Any] = msgspec.to_builtins(RootsResult([_root(each) for each in found]))
        return result


def _root(value: RootLike) -> Root:
    if isinstance(value, Root):
        return value
    if isinstance(value, str) and "://" in value:
        return Root(value)
    path = Path(value)
    if not path.is_absolute():
        raise UsageError(f"a root is an absolute path or a file: URI, not {str(value)!r}")
    return Root(path.as_uri(), path.name or None)


def _undeclared(what: str) -> BadReply:
    return BadReply(f"the server asks for {what}, which this client did not declare")
