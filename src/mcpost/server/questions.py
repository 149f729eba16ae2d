"""What a handler can ask of its caller: a person, a model, or the roots.

A question knows the request that carries it, the capability it needs, and how to read its answer.

Spec: client/elicitation, client/sampling, client/roots; patterns/mrtr, "InputRequests" (P-06).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mcpost.errors import InvalidParams, MissingCapability, UsageError
from mcpost.schema import compile_schema
from mcpost.types import ElicitResult, Root, RootsResult, SampleResult, SamplingMessage
from mcpost.wire import jsonrpc

__all__ = (
    "BadAnswer",
    "Elicit",
    "Elicited",
    "InputRequired",
    "Question",
    "Roots",
    "Sample",
    "Sampled",
    "check_capabilities",
)

Sampled = SampleResult

_OPTIONS: Final = {
    "include_context": "includeContext",
    "metadata": "metadata",
    "model_preferences": "modelPreferences",
    "stop_sequences": "stopSequences",
    "system_prompt": "systemPrompt",
    "temperature": "temperature",
    "tool_choice": "toolChoice",
    "tools": "tools",
}


class BadAnswer(Exception):
    """An answer is not of the form that was asked for; the question is asked again."""


class Elicited(ElicitResult):
    """A person's answer, read."""

    data: Any = None
    """The content as the type that was asked for; the content itself where that was a schema."""


class Question:
    """Base of the three kinds."""

    __slots__ = ()
    method: str = ""

    def params(self) -> dict[str, Any]:
        """The parameters of the request that carries the question."""
        return {}

    def capability(self) -> dict[str, Any]:
        """The client capability that it needs, as in `{"sampling": {}}`."""
        return {}

    def parse(self, answer: Any) -> Any:
        """Read an answer; raises BadAnswer."""
        return answer

    def write(self, answer: Any) -> Any:
        """Write a parsed answer as it may have been received; the reverse of `parse`."""
        return msgspec.to_builtins(answer)

    def request(self) -> dict[str, Any]:
        """The entry of `inputRequests`."""
        return {"method": self.method, "params": self.params()}

    def digest(self) -> str:
        """A key that the same question has in every run: its kind and a digest of its text."""
        text = jsonrpc.encode(self.request())
        return f"{self.method.partition('/')[0]}-{hashlib.sha256(text).hexdigest()[:12]}"


class Elicit(Question):
    """A question to a person.

    Args:
        message: The question.
        schema: A type with flat properties, or its JSON Schema; `None` asks for a plain yes or no.
            Secrets are never asked for by a form; send the person to a page for them.
        url: A page to open instead of a form. That a person agreed to open it does not mean that
            they have done there what they should.

    Raises:
        UsageError: The schema is no object with flat properties, the URL is none, or a form and a
            page are asked for at once.

    Spec: client/elicitation, "Requested Schema", "URL Mode".
    """

    __slots__ = ("_model", "_schema", "message", "url")
    method = "elicitation/create"

    def __init__(self, message: str, schema: Any = None, *, url: str | None = None) -> None:
        self.message = message
        self.url = url
        self._model: Any = None
        self._schema: dict[str, Any] = {"type": "object", "properties": {}}
        if url is not None:
            if schema is not None:
                raise UsageError("an elicitation asks by a form (schema) or by a page (url)")
            _check_url(url)
        elif isinstance(schema, Mapping):
            self._schema = dict(schema)
        elif schema is not None:
            # Imported here: it loads pydantic, which a server without such questions need not.
            from mcpost.server.signature.flat import flat_model

            self._model, self._schema = flat_model(schema)
        _check_flat(self._schema)

    def params(self) -> dict[str, Any]:
        """The message with the schema, or with the page."""
        if self.url is not None:
            return {"mode": "url", "message": self.message, "url": self.url}
        return {"mode": "form", "message": self.message, "requestedSchema": self._schema}

    def capability(self) -> dict[str, Any]:
        """`elicitation`, with the mode."""
        return {"elicitation": {"url": {}} if self.url is not None else {"form": {}}}

    def parse(self, answer: Any) -> Elicited:
        """Read an `ElicitResult` and check its content against the schema."""
        try:
            result = msgspec.convert(answer, ElicitResult)
        except msgspec.ValidationError as error:
            raise BadAnswer(str(error)) from error
        if not result.accepted or self.url is not None:
            return Elicited(result.action, result.content)
        content = result.content or {}
        if self._model is not None:
            try:
                return Elicited(result.action, content, self._model.load(content))
            except InvalidParams as error:
                raise BadAnswer(error.message) from error
        problem = compile_schema(self._schema).check(content)
        if problem is not None:
            raise BadAnswer(problem)
        return Elicited(result.action, content, content)

    def write(self, answer: Elicited) -> Any:
        """Write an answer without what was made of its content."""
        return msgspec.to_builtins(ElicitResult(answer.action, answer.content))


_FORMATS: Final = (None, "email", "uri", "date", "date-time")


def _check_flat(schema: Mapping[str, Any]) -> None:
    """Refuse what the restricted schema of a form has no place for."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise UsageError('an elicitation\'s schema is of "type": "object" and has "properties"')
    for name, each in properties.items():
        problem = _flat_problem(each) if isinstance(each, Mapping) else "is no schema"
        if problem is not None:
            raise UsageError(f"an elicitation cannot ask for {name!r}: {problem}")


def _flat_problem(schema: Mapping[str, Any]) -> str | None:
    kind = schema.get("type")
    if kind == "string":
        found = schema.get("format")
        if found in _FORMATS:
            return None
        return f"a form knows no text of the format {found!r}, only {list(_FORMATS[1:])}"
    if kind in ("number", "integer", "boolean"):
        return None
    items = schema.get("items")
    if kind == "array" and isinstance(items, Mapping) and ("enum" in items or "anyOf" in items):
        return None
    return "a property is a string, number, integer, boolean, or a list of choices"


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"{url!r} is no URL: {error}") from error
    if not parts.scheme or not parts.netloc or not url.isprintable() or " " in url:
        raise UsageError(f"{url!r} is no absolute URL, as in https://example.com/connect")


class Sample(Question):
    """A question to the caller's model.

    Args:
        messages: Text, a message, or a list of messages (`SamplingMessage`, or as JSON).
        max_tokens: The most tokens to sample.
        options: `system_prompt`, `temperature`, `stop_sequences`, `model_preferences`,
            `include_context`, `metadata`, `tools`, `tool_choice`.

    Raises:
        UsageError: An option that there is not, or a use of a tool without its result.

    Spec: client/sampling, "Creating Messages", "Message Content Constraints".
    """

    __slots__ = ("_params",)
    method = "sampling/createMessage"

    def __init__(self, messages: Any, *, max_tokens: int = 1024, **options: Any) -> None:
        if not isinstance(messages, (list, tuple)):
            messages = [messages]
        self._params: dict[str, Any] = {
            "messages": [_message(each) for each in messages],
            "maxTokens": max_tokens,
        }
        _check_tool_results(self._params["messages"])
        for name, value in options.items():
            if name not in _OPTIONS:
                raise UsageError(f"sampling has no option {name!r}; it has {sorted(_OPTIONS)}")
            self._params[_OPTIONS[name]] = msgspec.to_builtins(value)

    def params(self) -> dict[str, Any]:
        """The members of the request."""
        return self._params

    def capability(self) -> dict[str, Any]:
        """`sampling`, with `tools` where the model may use some, `context` where it gets some."""
        needed: dict[str, Any] = {}
        if "tools" in self._params or "toolChoice" in self._params:
            needed["tools"] = {}
        if self._params.get("includeContext", "none") != "none":
            needed["context"] = {}
        return {"sampling": needed}

    def parse(self, answer: Any) -> SampleResult:
        """Read a `CreateMessageResult`."""
        try:
            return msgspec.convert(answer, SampleResult)
        except msgspec.ValidationError as error:
            raise BadAnswer(str(error)) from error


def _message(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"role": "user", "content": {"type": "text", "text": value}}
    if isinstance(value, SamplingMessage):
        message: dict[str, Any] = msgspec.to_builtins(value)
        return message
    if isinstance(value, Mapping) and "role" in value and "content" in value:
        return dict(value)
    raise UsageError("a sampling message is text, a SamplingMessage, or an object with role")


def _check_tool_results(messages: list[dict[str, Any]]) -> None:
    """Refuse messages in which a model's wish to use a tool is not answered, and only that."""
    open_ids: set[Any] = set()
    for message in messages:
        content = message["content"]
        blocks = content if isinstance(content, list) else [content]
        results = [each for each in blocks if _kind(each) == "tool_result"]
        if results and len(results) != len(blocks):
            raise UsageError("a message with results of tools has nothing else beside them")
        answered = {each.get("toolUseId") for each in results}
        if answered != open_ids:
            raise UsageError(
                "after a message in which a model uses tools stands one with the results of all of"
                " them, and of no others"
            )
        open_ids = {each.get("id") for each in blocks if _kind(each) == "tool_use"}
    if open_ids:
        raise UsageError("the last message has uses of tools without their results")


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


class Roots(Question):
    """A question for the caller's roots."""

    __slots__ = ()
    method = "roots/list"

    def request(self) -> dict[str, Any]:
        """The entry of `inputRequests`; it has no parameters."""
        return {"method": self.method, "params": {}}

    def capability(self) -> dict[str, Any]:
        """`roots`."""
        return {"roots": {}}

    def parse(self, answer: Any) -> list[Root]:
        """Read a `ListRootsResult`."""
        try:
            return msgspec.convert(answer, RootsResult).roots
        except msgspec.ValidationError as error:
            raise BadAnswer(str(error)) from error

    def write(self, answer: list[Root]) -> Any:
        """Write the roots as their result."""
        return msgspec.to_builtins(RootsResult(answer))


class InputRequired:
    """Return it from a handler to ask and to keep state in one's own hands.

    The handler is called again with the answers; `ctx.answers` has them by key and `ctx.state` is
    what stands here. The state is sealed: the caller can carry it, and cannot change it.

    Args:
        questions: The questions by key; may be empty where there is a state.
        state: Any JSON value.

    Spec: patterns/mrtr, "InputRequiredResult" (P-06).
    """

    __slots__ = ("questions", "state")

    def __init__(self, questions: Mapping[str, Question] | None = None, state: Any = None) -> None:
        self.questions = dict(questions or {})
        self.state = state


def check_capabilities(
    declared: Mapping[str, Any], needed: Mapping[str, Any]
) -> MissingCapability | None:
    """Check what a client declared against what is needed of it.

    Args:
        declared: Its capabilities, as received.
        needed: Capabilities with what is needed of each, as in `{"sampling": {"tools": {}}}`.

    Returns:
        `None`, or the error that names what is missing (T-21).
    """
    missing = {
        name: parts for name, parts in needed.items() if not _declares(declared, name, parts)
    }
    if not missing:
        return None
    return MissingCapability(f"the client has not declared: {', '.join(missing)}", missing)


def _declares(declared: Mapping[str, Any], name: str, parts: Mapping[str, Any]) -> bool:
    found = declared.get(name)
    if not isinstance(found, Mapping):
        return False
    # An empty object declares elicitation by form, as it did before there were two modes.
    if name == "elicitation" and not found:
        found = {"form": {}}
    return all(isinstance(found.get(part), Mapping) for part in parts)
