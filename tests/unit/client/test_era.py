"""What one answer says about a server's era."""

from __future__ import annotations

import pytest

from mcpost.client import EraMemory
from mcpost.client.era import judge
from mcpost.wire.jsonrpc import ErrorBody, Response
from mcpost.wire.versions import Era


def failed(code: int) -> Response:
    return Response(1, error=ErrorBody(code, "no"))


@pytest.mark.req("V-03/C")
@pytest.mark.parametrize(
    ("status", "response", "verdict"),
    [
        pytest.param(200, Response(1, result={}), "modern", id="a result"),
        pytest.param(200, failed(-32602), "modern", id="an error with 200"),
        pytest.param(400, failed(-32020), "modern", id="-32020"),
        pytest.param(400, failed(-32021), "modern", id="-32021"),
        pytest.param(400, failed(-32022), "modern", id="-32022"),
        pytest.param(404, failed(-32601), "modern", id="-32601 with 404"),
        pytest.param(400, failed(-32600), "suspicious", id="-32600, as for a missing session"),
        pytest.param(400, failed(-32602), "suspicious", id="-32602 with 400"),
        pytest.param(400, None, "suspicious", id="400 with anything else"),
        pytest.param(404, None, "suspicious", id="404 with anything else"),
        pytest.param(405, None, "suspicious", id="405"),
        pytest.param(401, None, "nothing", id="401"),
        pytest.param(403, None, "nothing", id="403"),
        pytest.param(406, None, "nothing", id="406"),
        pytest.param(429, None, "nothing", id="429"),
        pytest.param(500, None, "nothing", id="500"),
        pytest.param(503, failed(-32603), "nothing", id="503"),
    ],
)
def test_an_answer_is_judged(status: int, response: Response | None, verdict: str) -> None:
    assert judge(status, response).value == verdict


def test_the_memory_is_bounded_and_forgets_what_was_not_asked_for() -> None:
    memory = EraMemory(limit=2)
    memory.put("a", Era.MODERN)
    memory.put("b", Era.LEGACY)
    memory.get("a")
    memory.put("c", Era.MODERN)

    assert [memory.get(name) for name in "abc"] == [Era.MODERN, None, Era.MODERN]
    memory.forget("a")
    assert memory.get("a") is None
