"""One session, without a transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from mcpost import Context, Elicit, InputRequired, Server
from mcpost.limits import ServerLimits
from mcpost.server.admission import Admission
from mcpost.server.legacy.session import Session
from mcpost.wire.jsonrpc import Notification, Request, Response
from tests.helpers.legacy import NAME, Gates, make_server
from tests.helpers.loop import run, run_by_the_clock
from tests.helpers.until import until


class Mouth:
    """An outlet that keeps what it is told."""

    def __init__(self, *, can_ask: bool = True) -> None:
        self.can_ask = can_ask
        self.said: list[Any] = []

    def say(self, message: bytes) -> None:
        self.said.append(json.loads(message))

    def hang_up(self) -> None:
        self.said.append("hung up")

    @property
    def methods(self) -> list[str]:
        return [each["method"] for each in self.said]


class Talk:
    """A session that is open."""

    def __init__(
        self,
        server: Server | None = None,
        *,
        version: str = "2025-11-25",
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        server = server or make_server()
        self.mouth = Mouth()
        admission = Admission(asyncio.get_running_loop(), server.limits)
        self.session = Session(server.features, server.limits, admission)
        params = {"protocolVersion": version, "capabilities": capabilities or {}}
        self.opened = self.begin("initialize", params)

    def begin(self, method: str, params: dict[str, Any] | None = None, id: Any = 1) -> Any:
        """Send a request; gives the response, or the task that will have it."""
        answer = self.session.begin(Request(id, method, params or {}), self.mouth)
        if isinstance(answer, bytes):
            return json.loads(answer)
        return asyncio.get_running_loop().create_task(answer)

    async def ask(self, method: str, params: dict[str, Any] | None = None, id: Any = 1) -> Any:
        """Send a request and give its response."""
        found = self.begin(method, params, id)
        if isinstance(found, asyncio.Task):
            answer = await found
            return None if answer is None else json.loads(answer)
        return found

    async def call(self, name: str, id: Any = 1, **arguments: Any) -> Any:
        return await self.ask("tools/call", {"name": name, "arguments": arguments}, id)

    def cancel(self, id: Any) -> None:
        self.session.take(Notification("notifications/cancelled", {"requestId": id}))

    def answer(self, result: dict[str, Any]) -> None:
        self.session.take(Response(self.mouth.said[-1]["id"], result=result))


@pytest.mark.req("L-01/S")
def test_before_initialize_only_a_ping_is_answered() -> None:
    async def check() -> None:
        server = make_server()
        session = Session(
            server.features, server.limits, Admission(asyncio.get_running_loop(), server.limits)
        )
        ping = session.begin(Request(1, "ping", {}), Mouth())
        listed = session.begin(Request(2, "tools/list", {}), Mouth())

        assert ping == b'{"jsonrpc":"2.0","id":1,"result":{}}'
        assert isinstance(listed, bytes)
        assert json.loads(listed)["error"]["code"] == -32600

    run(check())


@pytest.mark.req("L-01/S")
@pytest.mark.parametrize(
    "params",
    [
        {"capabilities": {}},
        {"protocolVersion": 5, "capabilities": {}},
        {"protocolVersion": "2025-11-25"},
        {"protocolVersion": "2025-11-25", "capabilities": []},
    ],
)
def test_an_initialize_that_is_wrong_leaves_the_session_closed(params: dict[str, Any]) -> None:
    async def check() -> None:
        server = make_server()
        session = Session(
            server.features, server.limits, Admission(asyncio.get_running_loop(), server.limits)
        )
        answer = session.begin(Request(1, "initialize", params), Mouth())

        assert isinstance(answer, bytes)
        assert json.loads(answer)["error"]["code"] == -32602
        assert session.version is None

    run(check())


@pytest.mark.req("L-01/S")
def test_a_session_is_opened_once() -> None:
    async def check() -> None:
        talk = Talk()

        again = talk.begin("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
        assert again["error"]["code"] == -32600
        assert talk.session.version == "2025-11-25"

    run(check())


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen", "tasks/get", "none"])
def test_methods_of_other_revisions_are_not_served(method: str) -> None:
    async def check() -> None:
        assert Talk().begin(method)["error"]["code"] == -32601

    run(check())


@pytest.mark.req("L-04/S")
@pytest.mark.parametrize(("set_to", "heard"), [(None, ["info"]), ("debug", ["debug", "info"])])
def test_logs_are_told_from_the_level_that_is_set(set_to: str | None, heard: list[str]) -> None:
    async def check() -> None:
        talk = Talk()
        if set_to is not None:
            assert talk.begin("logging/setLevel", {"level": set_to})["result"] == {}
        for level in ("debug", "info"):
            await talk.call("log", level=level)

        assert [each["params"]["level"] for each in talk.mouth.said] == heard

    run(check())


@pytest.mark.req("L-04/S")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("logging/setLevel", {"level": "loud"}),
        ("logging/setLevel", {}),
        ("resources/subscribe", {}),
        ("resources/unsubscribe", {"uri": 5}),
        ("resources/subscribe", {"uri": "a:" + "x" * 9000}),
    ],
)
def test_parameters_that_are_wrong_are_refused(method: str, params: dict[str, Any]) -> None:
    async def check() -> None:
        assert Talk().begin(method, params)["error"]["code"] == -32602

    run(check())


@pytest.mark.req("L-04/S")
def test_a_session_subscribes_to_so_many_resources_and_no_more() -> None:
    async def check() -> None:
        talk = Talk(make_server(ServerLimits(max_listen_uris=2)))
        codes = [
            talk.begin("resources/subscribe", {"uri": uri}).get("error", {}).get("code")
            for uri in ("a:1", "a:2", "a:2", "a:3")
        ]

        assert codes == [None, None, None, -32602]

    run(check())


@pytest.mark.req("L-04/S")
def test_without_resources_there_is_nothing_to_subscribe_to() -> None:
    async def check() -> None:
        talk = Talk(Server("bare"))

        assert talk.begin("resources/subscribe", {"uri": "a:1"})["error"]["code"] == -32601

    run(check())


@pytest.mark.req("L-02/S")
def test_of_a_cancelled_call_nothing_is_said() -> None:
    async def check() -> None:
        gates = Gates()
        talk = Talk(make_server(gates=gates))
        task = talk.begin("tools/call", {"name": "hold", "arguments": {}}, 5)
        await gates.entered.wait()
        talk.cancel(5)

        assert await task is None
        assert gates.cancelled

    run(check())


@pytest.mark.req("L-02/S")
def test_a_call_that_is_cancelled_before_its_first_step_never_runs() -> None:
    async def check() -> None:
        gates = Gates()
        talk = Talk(make_server(gates=gates))
        task = talk.begin("tools/call", {"name": "hold", "arguments": {}}, 5)
        talk.cancel(5)

        assert await task is None
        assert gates.runs == 0

    run(check())


def test_a_cancellation_of_the_handler_s_own_making_is_an_error() -> None:
    async def check() -> None:
        server = Server("odd")

        @server.tool
        async def odd() -> str:
            raise asyncio.CancelledError

        assert (await Talk(server).call("odd"))["error"]["code"] == -32603

    run(check())


def test_a_call_that_takes_too_long_is_stopped() -> None:
    async def check() -> None:
        gates = Gates()
        talk = Talk(make_server(ServerLimits(call_timeout=0.02), gates))
        answer = await talk.call("hold")

        assert answer["error"]["message"] == "the call took longer than this server allows"
        assert gates.cancelled

    run_by_the_clock(check())


@pytest.mark.req("T-25/S")
def test_more_calls_than_may_run_wait_and_more_than_may_wait_are_refused() -> None:
    async def check() -> None:
        gates = Gates()
        talk = Talk(make_server(ServerLimits(max_calls=1, max_queued=1), gates))
        held = talk.begin("tools/call", {"name": "hold", "arguments": {}}, 1)
        waiting = talk.begin("tools/call", {"name": "log", "arguments": {"level": "info"}}, 2)
        await gates.entered.wait()
        refused = talk.begin("tools/call", {"name": "hold", "arguments": {}}, 3)
        gates.go.set()

        assert refused["error"]["code"] == -32603
        assert json.loads(await held)["id"] == 1
        assert json.loads(await waiting)["id"] == 2

    run(check())


@pytest.mark.req("L-03/S")
def test_several_questions_go_out_at_once() -> None:
    async def check() -> None:
        server = Server("two")

        @server.tool
        async def two(ctx: Context) -> str:
            found = await ctx.ask({"a": Elicit("A?", NAME), "b": Elicit("B?", NAME)})
            return " ".join(str(found[key].content["name"]) for key in ("b", "a"))

        talk = Talk(server, capabilities={"elicitation": {}})
        task = talk.begin("tools/call", {"name": "two", "arguments": {}})
        await until(lambda: len(talk.mouth.said) == 2)
        for each in talk.mouth.said:
            content = {"name": each["params"]["message"]}
            answer = {"action": "accept", "content": content}
            talk.session.take(Response(each["id"], result=answer))

        assert json.loads(await task)["result"]["content"][0]["text"] == "B? A?"

    run(check())


@pytest.mark.req("L-03/S")
def test_what_a_handler_returns_as_required_is_asked_while_its_call_goes_on() -> None:
    async def check() -> None:
        server = Server("rounds")

        @server.tool
        async def rounds(ctx: Context) -> Any:
            if ctx.state is None:
                return InputRequired({"name": Elicit("Name?", NAME)}, state="asked")
            return f"{ctx.state} {ctx.answers['name']['content']['name']}"

        talk = Talk(server, capabilities={"elicitation": {"form": {}}})
        task = talk.begin("tools/call", {"name": "rounds", "arguments": {}})
        await until(lambda: talk.mouth.said)
        talk.answer({"action": "accept", "content": {"name": "Ann"}})

        assert json.loads(await task)["result"]["content"][0]["text"] == "asked Ann"

    run(check())


@pytest.mark.req("L-03/S")
def test_a_client_is_told_that_a_question_of_a_cancelled_call_needs_no_answer() -> None:
    async def check() -> None:
        talk = Talk(capabilities={"elicitation": {}})
        task = talk.begin("tools/call", {"name": "greet", "arguments": {}})
        await until(lambda: talk.mouth.said)
        talk.cancel(1)

        assert await task is None
        asked, cancelled = talk.mouth.said
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == asked["id"]

    run(check())


@pytest.mark.req("L-03/S")
@pytest.mark.parametrize(
    "answer", [{"action": "shrug"}, {"action": "accept", "content": {"name": 5}}, {}]
)
def test_an_answer_of_another_form_is_an_error(answer: dict[str, Any]) -> None:
    async def check() -> None:
        talk = Talk(capabilities={"elicitation": {}})
        task = talk.begin("tools/call", {"name": "greet", "arguments": {}})
        await until(lambda: talk.mouth.said)
        talk.answer(answer)

        assert json.loads(await task)["error"]["code"] == -32602

    run(check())


@pytest.mark.req("L-03/S")
def test_answers_that_nobody_waits_for_are_passed_over() -> None:
    async def check() -> None:
        session = Talk().session
        session.take(Response(None))
        session.take(Response("server-1", result={}))
        session.take(Response(7, result={}))

    run(check())


@pytest.mark.req("L-01/S")
def test_the_end_of_a_session_ends_its_calls_and_questions() -> None:
    async def check() -> None:
        talk = Talk(capabilities={"elicitation": {}})
        task = talk.begin("tools/call", {"name": "greet", "arguments": {}})
        await until(lambda: talk.mouth.said)
        talk.session.close()

        assert await task is None

    run(check())


@pytest.mark.req("L-05/S")
def test_a_handler_sees_what_initialize_settled() -> None:
    async def check() -> None:
        server = Server("curious")

        @server.tool
        async def see(ctx: Context) -> str:
            assert ctx.client_info is not None
            return f"{ctx.protocol_version} {ctx.client_info.name} {dict(ctx.client_capabilities)}"

        talk = Talk(Server("none"))
        talk.session = Session(
            server.features, server.limits, Admission(asyncio.get_running_loop(), server.limits)
        )
        info = {"name": "me", "version": "1"}
        settled = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}}
        talk.begin("initialize", {**settled, "clientInfo": info})

        found = (await talk.call("see"))["result"]["content"][0]["text"]
        assert found == "2025-06-18 me {'roots': {}}"

    run(check())
