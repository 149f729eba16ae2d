from __future__ import annotations

import time

import pytest

from mcpost.errors import InternalError, InvalidParams, UsageError
from mcpost.limits import ServerLimits
from mcpost.server.sealing import Sealer, binding

OLD, NEW = b"o" * 32, b"n" * 32
BINDING = binding("ann", "tools/call", {"name": "f", "arguments": {"a": 1}})


def sealer(*keys: bytes, audience: str = "library", **limits: float) -> Sealer:
    return Sealer(keys or NEW, ServerLimits(**limits), audience=audience)  # type: ignore[arg-type]


@pytest.mark.req("P-06/S")
def test_a_state_comes_back_as_it_was_sealed() -> None:
    state = sealer().seal({"a": {"name": "é"}}, BINDING)

    assert sealer().open(state, BINDING) == {"a": {"name": "é"}}


@pytest.mark.req("P-06/S")
def test_a_state_is_one_line_of_plain_characters() -> None:
    state = sealer().seal({"a": "\n" * 100}, BINDING)

    assert state.isascii()
    assert set(state) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=")


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda state: state + "-TAMPERED", id="longer"),
        pytest.param(lambda state: state[:-4], id="shorter"),
        pytest.param(lambda state: state[4:], id="without its start"),
        pytest.param(lambda state: state + "\n", id="with a line break"),
        pytest.param(lambda state: state[:9] + "!" + state[9:], id="with a foreign character"),
        pytest.param(lambda state: "", id="empty"),
        pytest.param(lambda state: "é", id="not ASCII"),
        pytest.param(lambda state: 12345, id="a number"),
        pytest.param(lambda state: None, id="null"),
        pytest.param(lambda state: {"a": state}, id="an object"),
    ],
)
def test_a_changed_state_is_refused(change: object) -> None:
    state = change(sealer().seal({}, BINDING))  # type: ignore[operator]

    with pytest.raises(InvalidParams) as caught:
        sealer().open(state, BINDING)

    assert caught.value.code == -32602


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize(
    ("principal", "method", "params"),
    [
        pytest.param("bob", "tools/call", {"name": "f"}, id="another principal"),
        pytest.param(None, "tools/call", {"name": "f"}, id="no principal"),
        pytest.param("ann", "prompts/get", {"name": "f"}, id="another method"),
        pytest.param("ann", "tools/call", {"name": "g"}, id="another name"),
        pytest.param("ann", "tools/call", {"name": "f", "arguments": {"a": 1}}, id="arguments"),
    ],
)
def test_a_state_is_of_no_use_elsewhere(
    principal: str | None, method: str, params: dict[str, object]
) -> None:
    state = sealer().seal({}, binding("ann", "tools/call", {"name": "f"}))

    with pytest.raises(InvalidParams, match="belongs to another call"):
        sealer().open(state, binding(principal, method, params))


@pytest.mark.req("P-06/S")
def test_a_retry_is_the_same_call_whatever_it_carries_besides() -> None:
    first = binding("ann", "tools/call", {"name": "f", "arguments": {"a": 1, "b": 2}, "_meta": {}})
    retry = {"arguments": {"b": 2, "a": 1}, "name": "f", "inputResponses": {}, "requestState": "x"}

    assert binding("ann", "tools/call", retry) == first


@pytest.mark.req("P-06/S")
def test_a_state_is_refused_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    state = sealer(request_state_ttl=60).seal({}, BINDING)
    assert sealer().open(state, BINDING) == {}
    later = time.time() + 62
    monkeypatch.setattr("mcpost.server.sealing.time.time", lambda: later)

    with pytest.raises(InvalidParams, match="too old"):
        sealer().open(state, BINDING)


@pytest.mark.req("P-06/S")
def test_a_key_is_replaced_without_a_gap() -> None:
    state = sealer(OLD).seal({"a": 1}, BINDING)

    assert sealer(NEW, OLD).open(state, BINDING) == {"a": 1}
    with pytest.raises(InvalidParams):
        sealer(NEW).open(state, BINDING)


def test_the_first_key_seals() -> None:
    state = sealer(NEW, OLD).seal({}, BINDING)

    assert sealer(NEW).open(state, BINDING) == {}


@pytest.mark.req("P-06/S")
def test_another_server_with_the_same_key_refuses_the_state() -> None:
    state = sealer(audience="library").seal({}, BINDING)

    with pytest.raises(InvalidParams):
        sealer(audience="archive").open(state, BINDING)


def test_without_a_key_only_the_same_process_opens_its_states() -> None:
    one, other = Sealer(None, ServerLimits()), Sealer(None, ServerLimits())
    state = one.seal({"a": 1}, BINDING)

    assert one.open(state, BINDING) == {"a": 1}
    with pytest.raises(InvalidParams):
        other.open(state, BINDING)


@pytest.mark.parametrize(
    "content",
    [pytest.param({"a": "x" * 300}, id="too large"), pytest.param({"a": object()}, id="no JSON")],
)
def test_a_state_that_cannot_be_sealed_is_the_servers_failure(content: dict[str, object]) -> None:
    with pytest.raises(InternalError):
        sealer(max_request_state=200).seal(content, BINDING)


@pytest.mark.parametrize("keys", [b"short", [], [NEW, b"short"]])
def test_a_key_that_protects_nothing_is_refused(keys: object) -> None:
    with pytest.raises(UsageError, match="at least 16 bytes"):
        Sealer(keys, ServerLimits())  # type: ignore[arg-type]
