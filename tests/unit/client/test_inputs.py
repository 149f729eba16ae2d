"""What a server may ask, and what it is answered."""

from __future__ import annotations

from typing import Any

import pytest

from mcpost.client.inputs import Elicitation, Inputs, Sampling
from mcpost.errors import BadReply, UsageError
from mcpost.types import ElicitResult
from tests.helpers.loop import run

FORM = {
    "message": "Who?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "default": "Ann"}, "age": {"type": "integer"}},
        "required": ["name"],
    },
}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9}


def ask(inputs: Inputs, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return run(inputs.answer(method, params))


@pytest.mark.req("T-21/C", "P-06/C")
@pytest.mark.parametrize(
    ("handlers", "declared"),
    [
        ({}, {}),
        ({"elicit": lambda q: None}, {"elicitation": {"form": {}}}),
        ({"elicit_url": lambda q: None}, {"elicitation": {"url": {}}}),
        ({"sample": lambda q: "x"}, {"sampling": {}}),
        ({"roots": ["/"]}, {"roots": {}}),
    ],
)
def test_a_handler_declares_its_capability_by_being_there(
    handlers: dict[str, Any], declared: dict[str, Any]
) -> None:
    assert Inputs(**handlers).capabilities() == declared


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"name": "Bo"}, {"action": "accept", "content": {"name": "Bo"}}),
        (None, {"action": "decline"}),
        (ElicitResult("cancel"), {"action": "cancel"}),
    ],
)
def test_an_answer_to_a_form_is_accept_decline_or_cancel(answer: Any, result: Any) -> None:
    assert ask(Inputs(elicit=lambda q: answer), "elicitation/create", FORM) == result


def test_a_form_without_mode_is_a_form_and_proposes_its_defaults() -> None:
    async def handler(question: Elicitation) -> dict[str, Any]:
        assert question.mode == "form"
        return question.defaults

    answer = ask(Inputs(elicit=handler), "elicitation/create", FORM)

    assert answer["content"] == {"name": "Ann"}


def test_an_answer_that_does_not_fit_is_the_programs_mistake() -> None:
    with pytest.raises(UsageError, match="Who"):
        ask(Inputs(elicit=lambda q: {"name": 7}), "elicitation/create", FORM)


def test_a_page_is_opened_with_consent_alone() -> None:
    page = {"mode": "url", "message": "Log in", "url": "https://example.com"}

    assert ask(Inputs(elicit_url=lambda q: {}), "elicitation/create", page) == {"action": "accept"}


def test_a_sample_may_be_plain_text() -> None:
    def handler(question: Sampling) -> str:
        return f"{question.max_tokens} tokens"

    answer = ask(Inputs(sample=handler), "sampling/createMessage", SAMPLE)

    assert answer["content"] == {"type": "text", "text": "9 tokens"}
    assert (answer["role"], answer["model"]) == ("assistant", "client")


def test_roots_are_paths_or_uris() -> None:
    answer = ask(Inputs(roots=lambda: ["/srv/books", "file:///etc"]), "roots/list", {})

    assert answer == {
        "roots": [{"uri": "file:///srv/books", "name": "books"}, {"uri": "file:///etc"}]
    }
    with pytest.raises(UsageError, match="absolute"):
        ask(Inputs(roots=["books"]), "roots/list", {})


@pytest.mark.req("P-06/C")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", SAMPLE),
        ("elicitation/create", {"mode": "url", "message": "x", "url": "https://example.com"}),
        ("roots/list", {}),
        ("tools/call", {}),
        ("elicitation/create", {"mode": "form"}),
    ],
)
def test_what_was_not_declared_is_not_answered(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(BadReply):
        ask(Inputs(elicit=lambda q: {}), method, params)
