from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost import Context, Elicit, Server
from mcpost.errors import WireError
from tests.helpers.calls import EVERYTHING, ask
from tests.helpers.loop import run

NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
server = Server("fuzz", request_state_key=b"k" * 32)


@server.tool
async def add(a: int, b: float = 1.0) -> float:
    return a + b


@server.tool
async def greet(ctx: Context, names: list[str] | None = None) -> str:
    ctx.progress(1, 2, "half")
    return str(await ctx.ask({name: Elicit(name, NAME) for name in names or ["x"]}))


@server.resource("x://{a}-{b}/{+rest}")
async def read(a: int, b: str, rest: str) -> str:
    return rest


@server.prompt
async def say(text: str) -> str:
    return text


@server.completion("say", "text")
async def complete(value: str, arguments: dict[str, str]) -> list[str]:
    return [value]


METHODS = [
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
]
WORDS = st.sampled_from(["add", "greet", "say", "text", "x://1-b/c", "ref/prompt", "a", "b", ""])
LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | WORDS
KEYS = st.sampled_from(
    [
        *("name", "uri", "cursor", "arguments", "ref", "argument", "type", "value", "context"),
        *("inputResponses", "requestState", "a", "b", "names", "text", "x", "action", "content"),
    ]
)
JSON = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.req("T-23/S", "J-02/S", "J-03/S")
@given(st.sampled_from(METHODS), st.dictionaries(KEYS, JSON | WORDS, max_size=5))
def test_whatever_is_asked_the_answer_is_a_result_or_an_error_of_the_protocol(
    method: str, params: dict[str, Any]
) -> None:
    params.pop("_meta", None)

    async def outcome() -> int | dict[str, Any]:
        try:
            return await ask(server, method, params, capabilities=EVERYTHING, progressToken=1)
        except WireError as error:
            return error.code

    answered = run(outcome(), debug=False)

    if isinstance(answered, int):
        assert answered in (-32602, -32603)
    else:
        assert answered["resultType"] in ("complete", "input_required")
        assert answered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "fuzz"
