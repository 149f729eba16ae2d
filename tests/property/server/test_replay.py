from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost import Context, Elicit, Server, ServerLimits
from mcpost.errors import InvalidParams
from mcpost.server.sealing import Sealer, binding
from tests.helpers.calls import EVERYTHING, call_tool
from tests.helpers.loop import run

WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@pytest.mark.req("P-06/S")
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_a_call_ends_with_each_answer_whatever_is_answered_when(
    groups: list[int], data: st.DataObject
) -> None:
    """The handler asks in groups; the caller answers some of them each time, or with nonsense."""
    server = Server("asks", limits=ServerLimits(max_input_rounds=1_000))
    runs = 0

    @server.tool
    async def script(ctx: Context) -> dict[str, str]:
        nonlocal runs
        runs += 1
        heard: dict[str, str] = {}
        for group, size in enumerate(groups):
            keys = [f"{group}.{each}" for each in range(size)]
            answers = await ctx.ask({key: Elicit(key, WORD) for key in keys})
            heard |= {key: answer.data["word"] for key, answer in answers.items()}
        return heard

    async def converse() -> dict[str, Any]:
        result = await call_tool(server, "script", capabilities=EVERYTHING)
        while result["resultType"] == "input_required":
            asked = sorted(result["inputRequests"])
            some = data.draw(st.sets(st.sampled_from(asked), min_size=1))
            responses: dict[str, Any] = {
                key: {"action": "accept", "content": {"word": f"w{key}"}} for key in some
            }
            for key in set(asked) - some:
                responses[key] = data.draw(JSON.filter(lambda value: not isinstance(value, dict)))
            retry = {"inputResponses": responses, "requestState": result["requestState"]}
            result = await call_tool(server, "script", retry=retry, capabilities=EVERYTHING)
        return result

    result = run(converse(), debug=False)

    keys = [f"{group}.{each}" for group, size in enumerate(groups) for each in range(size)]
    assert result["structuredContent"] == {key: f"w{key}" for key in keys}
    assert runs <= sum(groups) + 1


@pytest.mark.req("P-06/S")
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.data())
def test_no_character_of_a_state_can_be_changed(
    content: dict[str, Any], data: st.DataObject
) -> None:
    sealer = Sealer(b"k" * 32, ServerLimits())
    bound = binding("ann", "tools/call", {"name": "f"})
    state = sealer.seal(content, bound)
    place = data.draw(st.integers(0, len(state) - 1))
    other = data.draw(st.characters().filter(lambda each: each != state[place]))

    assert sealer.open(state, bound) == content
    with pytest.raises(InvalidParams):
        sealer.open(state[:place] + other + state[place + 1 :], bound)
