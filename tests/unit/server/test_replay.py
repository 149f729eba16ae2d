"""Questions on this revision, as a caller sees them: rounds of one call."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mcpost import Ask, Context, Elicit, InputRequired, Roots, Sample, Server, ServerLimits
from mcpost.errors import InternalError, InvalidParams, MissingCapability, WireError
from tests.helpers.calls import EVERYTHING, ask, call_tool
from tests.helpers.loop import run

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ANN = {"action": "accept", "content": {"name": "Ann"}}
KEY = b"k" * 32


@dataclass
class Address:
    street: str
    floor: int = 0


def make_server(**limits: Any) -> Server:
    server = Server("asks", request_state_key=KEY, limits=ServerLimits(**limits))

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who are you?", NAME, key="user_name")
        return f"{answer.action} {answer.content}"

    @server.tool
    async def twice(ctx: Context) -> str:
        one = await ctx.elicit("One?", NAME, key="step1")
        two = await ctx.elicit("Two?", NAME, key="step2")
        return f"{one.data['name']} {two.data['name']}"

    return server


async def rounds(
    server: Server, name: str, *answers: dict[str, Any], **options: Any
) -> list[dict[str, Any]]:
    """Call a tool, and once more with each of the answers."""
    options.setdefault("capabilities", EVERYTHING)
    results = [await call_tool(server, name, **options)]
    for each in answers:
        retry = {"inputResponses": each, "requestState": results[-1]["requestState"]}
        results.append(await call_tool(server, name, retry=retry, **options))
    return results


def text(result: dict[str, Any]) -> str:
    assert result["resultType"] == "complete"
    return str(result["content"][0]["text"])


@pytest.mark.req("P-06/S", "J-02/S")
def test_a_question_is_the_result_of_the_call() -> None:
    (result,) = run(rounds(make_server(), "greet"))

    assert result["resultType"] == "input_required"
    assert result["inputRequests"] == {
        "user_name": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Who are you?", "requestedSchema": NAME},
        }
    }
    assert isinstance(result["requestState"], str)
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "asks"
    assert "ttlMs" not in result


@pytest.mark.req("P-06/S")
def test_the_answer_completes_the_call() -> None:
    *_, last = run(rounds(make_server(), "greet", {"user_name": ANN, "unknown": 5}))

    assert text(last) == "accept {'name': 'Ann'}"


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_is_an_answer(action: str) -> None:
    *_, last = run(rounds(make_server(), "greet", {"user_name": {"action": action}}))

    assert text(last) == f"{action} None"


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize(
    "responses",
    [
        {},
        {"wrong_key": ANN},
        {"user_name": 12345},
        {"user_name": None},
        {"user_name": "Ann"},
        {"user_name": {}},
        {"user_name": {"action": "maybe"}},
        {"user_name": {"action": "accept"}},
        {"user_name": {"action": "accept", "content": {"name": 5}}},
        {"user_name": {"action": "accept", "content": []}},
    ],
)
def test_what_does_not_answer_is_asked_again(responses: dict[str, Any]) -> None:
    *_, last = run(rounds(make_server(), "greet", responses))

    assert list(last["inputRequests"]) == ["user_name"]


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize("responses", [None, [], 5, "x"])
def test_answers_that_are_no_object_are_refused(responses: object) -> None:
    with pytest.raises(InvalidParams, match="inputResponses"):
        run(rounds(make_server(), "greet", responses))  # type: ignore[arg-type]


@pytest.mark.req("P-06/S")
def test_answers_of_earlier_rounds_are_in_the_state() -> None:
    bob = {"action": "accept", "content": {"name": "Bob"}}
    first, second, last = run(rounds(make_server(), "twice", {"step1": ANN}, {"step2": bob}))

    assert list(first["inputRequests"]) == ["step1"]
    assert list(second["inputRequests"]) == ["step2"]
    assert first["requestState"] != second["requestState"]
    assert text(last) == "Ann Bob"


@pytest.mark.req("P-06/S")
def test_an_answer_that_was_used_is_not_changed_later() -> None:
    bob = {"action": "accept", "content": {"name": "Bob"}}
    *_, last = run(rounds(make_server(), "twice", {"step1": ANN}, {"step1": bob, "step2": bob}))

    assert text(last) == "Ann Bob"


@pytest.mark.req("P-06/S")
def test_nothing_is_remembered_besides_the_state() -> None:
    async def main() -> list[dict[str, Any]]:
        first = await call_tool(make_server(), "greet", capabilities=EVERYTHING)
        retry = {"inputResponses": {"user_name": ANN}, "requestState": first["requestState"]}
        return [await call_tool(make_server(), "greet", retry=retry, capabilities=EVERYTHING)]

    (last,) = run(main())

    assert text(last) == "accept {'name': 'Ann'}"


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize(
    ("name", "arguments", "principal"),
    [("greet", {}, "bob"), ("greet", {}, None), ("twice", {}, "ann")],
)
def test_a_state_of_another_call_is_refused(
    name: str, arguments: dict[str, Any], principal: str | None
) -> None:
    async def main() -> None:
        server = make_server()
        first = await call_tool(server, "greet", capabilities=EVERYTHING, principal="ann")
        retry = {"inputResponses": {}, "requestState": first["requestState"]}
        await call_tool(
            server, name, arguments, retry=retry, capabilities=EVERYTHING, principal=principal
        )

    with pytest.raises(InvalidParams, match="another call"):
        run(main())


@pytest.mark.req("P-06/S")
def test_a_tampered_state_is_an_error_and_not_a_new_question() -> None:
    async def main() -> None:
        server = make_server()
        first = await call_tool(server, "greet", capabilities=EVERYTHING)
        retry = {"requestState": first["requestState"] + "-TAMPERED"}
        await call_tool(server, "greet", retry=retry, capabilities=EVERYTHING)

    with pytest.raises(InvalidParams):
        run(main())


@pytest.mark.req("P-06/S")
def test_a_call_does_not_ask_for_ever() -> None:
    with pytest.raises(InternalError, match="asked for input 3 times"):
        run(rounds(make_server(max_input_rounds=3), "greet", {}, {}, {}))


@pytest.mark.req("T-21/S", "P-06/S")
@pytest.mark.parametrize(
    ("declared", "question", "missing"),
    [
        ({}, Elicit("?", NAME), {"elicitation": {"form": {}}}),
        ({"elicitation": {"url": {}}}, Elicit("?", NAME), {"elicitation": {"form": {}}}),
        ({"elicitation": {}}, Elicit("?", url="https://x.example/"), {"elicitation": {"url": {}}}),
        ({"elicitation": True}, Elicit("?", NAME), {"elicitation": {"form": {}}}),
        ({"roots": {}}, Sample("?"), {"sampling": {}}),
        (
            {"sampling": {}},
            Sample("?", tools=[{"name": "t", "inputSchema": {"type": "object"}}]),
            {"sampling": {"tools": {}}},
        ),
        (
            {"sampling": {}},
            Sample("?", include_context="thisServer"),
            {"sampling": {"context": {}}},
        ),
        ({}, Roots(), {"roots": {}}),
    ],
)
@pytest.mark.parametrize("style", ["inline", "returned"])
def test_nothing_is_asked_that_the_client_has_not_declared(
    declared: dict[str, Any], question: Any, missing: dict[str, Any], style: str
) -> None:
    server = Server("asks")

    @server.tool
    async def needs(ctx: Context) -> Any:
        if style == "returned":
            return InputRequired({"q": question})
        return await ctx.ask({"q": question})

    with pytest.raises(MissingCapability) as caught:
        run(call_tool(server, "needs", capabilities=declared))

    assert (caught.value.code, caught.value.data) == (-32021, {"requiredCapabilities": missing})


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize("declared", [{"elicitation": {}}, {"elicitation": {"form": {}}}])
def test_an_empty_elicitation_capability_is_one_by_form(declared: dict[str, Any]) -> None:
    (result,) = run(rounds(make_server(), "greet", capabilities=declared))

    assert "inputRequests" in result


@pytest.mark.req("P-06/S")
def test_many_questions_go_out_in_one_round() -> None:
    server = Server("asks")

    @server.tool
    async def many(ctx: Context) -> str:
        answers = await ctx.ask({"a": Elicit("?", NAME), "b": Sample("?"), "c": Roots()})
        return f"{answers['a'].data} {answers['b'].text} {answers['c'][0].uri}"

    sampled = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
    roots = {"roots": [{"uri": "file:///x"}]}
    first, second, last = run(
        rounds(server, "many", {"a": ANN, "c": {"roots": 5}}, {"b": sampled, "c": roots})
    )

    assert [each["method"] for each in first["inputRequests"].values()] == [
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    ]
    assert list(second["inputRequests"]) == ["b", "c"]
    assert text(last) == "{'name': 'Ann'} hi file:///x"


@pytest.mark.req("P-06/S")
def test_the_model_and_the_roots_are_asked_inline_too() -> None:
    server = Server("asks")

    @server.tool
    async def both(ctx: Context) -> str:
        answer = await ctx.sample("Hi", max_tokens=5, key="word")
        return f"{answer.text} {len(await ctx.roots(key='roots'))}"

    sampled = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
    *_, last = run(rounds(server, "both", {"word": sampled}, {"roots": {"roots": []}}))

    assert text(last) == "hi 0"


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize("style", ["gather", "group"])
def test_questions_of_tasks_that_run_together_go_out_in_one_round(style: str) -> None:
    server = Server("asks")

    @server.tool
    async def together(ctx: Context) -> str:
        async def one(key: str) -> str:
            answer = await ctx.elicit(f"{key}?", NAME, key=key)
            return str(answer.data["name"])

        if style == "gather":
            return " ".join(await asyncio.gather(one("a"), one("b")))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(key)) for key in "ab"]
        return " ".join(task.result() for task in tasks)

    first, last = run(rounds(server, "together", {"a": ANN, "b": ANN}))

    assert list(first["inputRequests"]) == ["a", "b"]
    assert text(last) == "Ann Ann"


@pytest.mark.req("P-06/S")
def test_a_loop_that_asks_again_asks_a_new_question_each_time() -> None:
    server = Server("asks")

    @server.tool
    async def insist(ctx: Context, key: str | None = None) -> str:
        for tries in range(1, 10):
            answer = await ctx.elicit("Yes?", NAME, key=key)
            if answer.accepted:
                return f"after {tries}"
        return "never"

    no = {"action": "decline"}
    first, second, last = run(
        rounds(server, "insist", {"k": no}, {"k-1": ANN}, arguments={"key": "k"})
    )
    (unnamed,) = run(rounds(server, "insist"))

    assert (list(first["inputRequests"]), list(second["inputRequests"])) == (["k"], ["k-1"])
    assert text(last) == "after 2"
    assert next(iter(unnamed["inputRequests"])).startswith("elicitation-")


@pytest.mark.req("P-06/S")
def test_an_except_exception_of_the_handler_does_not_hold_up_a_question() -> None:
    server = Server("asks")

    @server.tool
    async def careful(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("?", NAME, key="q")).data)
        except Exception:  # noqa: BLE001 - what this test is about
            return "swallowed"

    first, last = run(rounds(server, "careful", {"q": ANN}))

    assert list(first["inputRequests"]) == ["q"]
    assert text(last) == "{'name': 'Ann'}"


@pytest.mark.req("P-06/S")
def test_a_handler_that_goes_on_after_it_has_asked_is_a_failure() -> None:
    server = Server("asks")

    @server.tool
    async def careless(ctx: Context) -> str:
        with contextlib.suppress(BaseException):
            await ctx.elicit("?", NAME)
        return "done, it thinks"

    with pytest.raises(InternalError, match="went on after it had asked"):
        run(rounds(server, "careless"))


@pytest.mark.req("P-06/S")
def test_a_handler_may_keep_a_state_of_its_own() -> None:
    server = Server("asks")

    @server.tool
    async def own(ctx: Context) -> Any:
        if ctx.state is None:
            return InputRequired({"a": Elicit("?", NAME)}, state={"step": 1})
        if ctx.state["step"] == 1:
            return InputRequired({"b": Elicit("?", NAME)}, state={"step": 2})
        return f"{ctx.state} {sorted(ctx.answers)}"

    first, second, last = run(rounds(server, "own", {"a": ANN}, {"b": ANN}))

    assert (list(first["inputRequests"]), list(second["inputRequests"])) == (["a"], ["b"])
    assert text(last) == "{'step': 2} ['a', 'b']"


@pytest.mark.req("P-06/S")
def test_a_state_alone_asks_the_caller_to_come_again() -> None:
    server = Server("asks")

    @server.tool
    async def later(ctx: Context) -> Any:
        return "ready" if ctx.state else InputRequired(state="wait")

    first, last = run(rounds(server, "later", {}))

    assert "inputRequests" not in first
    assert text(last) == "ready"


@pytest.mark.req("P-06/S")
def test_a_returned_result_without_question_and_state_is_a_failure() -> None:
    server = Server("asks")

    @server.tool
    async def nothing() -> Any:
        return InputRequired()

    with pytest.raises(InternalError, match="needs a question or a state"):
        run(call_tool(server, "nothing"))


@pytest.mark.req("P-06/S")
def test_prompts_and_resources_ask_too_and_completions_do_not() -> None:
    server = Server("asks")

    @server.prompt
    async def about(ctx: Context) -> str:
        return f"about {(await ctx.elicit('?', NAME, key='q')).data['name']}"

    @server.resource("x://{id}")
    async def read(id: str, ctx: Context) -> str:
        return f"{id} {(await ctx.elicit('?', NAME, key='q')).data['name']}"

    @server.completion("about", "x")
    async def complete(value: str, ctx: Context) -> list[str]:
        await ctx.elicit("?", NAME)
        return []

    async def twice(method: str, params: dict[str, Any]) -> dict[str, Any]:
        first = await ask(server, method, params, capabilities=EVERYTHING)
        retry = {"inputResponses": {"q": ANN}, "requestState": first["requestState"]}
        return await ask(server, method, {**params, **retry}, capabilities=EVERYTHING)

    prompt = run(twice("prompts/get", {"name": "about"}))
    resource = run(twice("resources/read", {"uri": "x://1"}))

    assert prompt["messages"][0]["content"]["text"] == "about Ann"
    assert resource["contents"][0]["text"] == "1 Ann"
    assert (resource["ttlMs"], resource["cacheScope"]) == (0, "private")
    reference = {"ref": {"type": "ref/prompt", "name": "about"}}
    params = {**reference, "argument": {"name": "x", "value": ""}}
    with pytest.raises(WireError) as caught:
        run(ask(server, "completion/complete", params, capabilities=EVERYTHING))
    assert caught.value.code == -32603


def where(street: str) -> Elicit:
    return Elicit(f"Which floor in {street}?", Address)


async def who(ctx: Context, address: Address) -> Elicit | str:
    return "known" if address.floor == 0 else Elicit("Who?", NAME)


@pytest.mark.req("P-06/S")
def test_parameters_are_asked_for_in_order_before_the_function_runs_once() -> None:
    server, ran = Server("asks"), []

    @server.tool
    async def deliver(
        who: Annotated[Any, Ask(who)],
        address: Annotated[Address, Ask(where)],
        street: str = "High Street",
    ) -> str:
        ran.append(street)
        return f"{address.street} {address.floor} {getattr(who, 'data', who)}"

    floor = {"action": "accept", "content": {"street": "Main", "floor": 2}}
    first, second, last = run(rounds(server, "deliver", {"address": floor}, {"who": ANN}))

    assert first["inputRequests"]["address"]["params"]["message"] == "Which floor in High Street?"
    assert list(second["inputRequests"]) == ["who"]
    assert text(last) == "Main 2 {'name': 'Ann'}"
    assert ran == ["High Street"]


@pytest.mark.req("P-06/S")
def test_a_resolver_may_know_the_value() -> None:
    server = Server("asks")

    @server.tool
    def plain(address: Annotated[Address, Ask(lambda: Address("Main"))]) -> str:
        return address.street

    (result,) = run(rounds(server, "plain"))

    assert text(result) == "Main"
    assert server.features.tools.get("plain").definition.input_schema["properties"] == {}  # type: ignore[union-attr]


@pytest.mark.req("P-06/S")
def test_a_parameter_that_was_refused_fails_the_call_or_is_none() -> None:
    server = Server("asks")

    @server.tool
    async def strict(street: str, address: Annotated[Address, Ask(where)]) -> str:
        return "ran"

    @server.tool
    async def lax(street: str, address: Annotated[Address | None, Ask(where)]) -> str:
        return f"ran with {address}"

    no = {"address": {"action": "decline"}}
    *_, failed = run(rounds(server, "strict", no, arguments={"street": "x"}))
    *_, went_on = run(rounds(server, "lax", no, arguments={"street": "x"}))

    assert failed["isError"] is True
    assert text(went_on) == "ran with None"
