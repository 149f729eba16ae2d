"""The client that the official conformance suite drives, on the public API alone.

The suite runs it with the URL of its server as the last argument, and names the scenario and the
revision in the environment. What a scenario wants is one function here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcpost.client import Client, Elicitation

DEADLINE = 20.0

Scenario = Callable[[Client, Mapping[str, Any]], Awaitable[None]]


async def list_and_add(client: Client, _: Mapping[str, Any]) -> None:
    await client.tools()
    await client.call("add_numbers", {"a": 5, "b": 3})


async def walk(client: Client, _: Mapping[str, Any]) -> None:
    await client.discover()
    for tool in await client.tools():
        await client.call(tool.name)


async def visit_everything(client: Client, _: Mapping[str, Any]) -> None:
    """One request of each kind that the headers differ for."""
    for tool in await client.tools():
        await client.call(tool.name)
    for resource in await client.resources():
        await client.read(resource.uri)
    for prompt in await client.prompts():
        await client.prompt(prompt.name)


async def call_as_told(client: Client, context: Mapping[str, Any]) -> None:
    await client.tools()
    for call in context["toolCalls"]:
        await client.call(call["name"], call["arguments"])


async def call_what_is_left(client: Client, _: Mapping[str, Any]) -> None:
    """Call every tool whose marks are legal, with its required arguments filled."""
    samples = {"string": "text", "integer": 7, "number": 1.5, "boolean": True}
    for tool in await client.tools():
        properties = tool.input_schema.get("properties", {})
        await client.call(
            tool.name,
            {
                name: samples.get(properties[name].get("type"), "text")
                for name in tool.input_schema.get("required", [])
            },
        )


async def only_list(client: Client, _: Mapping[str, Any]) -> None:
    await client.tools()


async def hand_back_a_schema(client: Client, _: Mapping[str, Any]) -> None:
    schemas = {tool.name: tool.input_schema for tool in await client.tools()}
    await client.call("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


async def answer_and_go_on(client: Client, _: Mapping[str, Any]) -> None:
    await client.tools()
    for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
        await client.call(f"test_mrtr_{name}")


async def accept_the_defaults(client: Client, _: Mapping[str, Any]) -> None:
    await client.tools()
    await client.call("test_client_elicitation_defaults")


async def come_back(client: Client, _: Mapping[str, Any]) -> None:
    await client.tools()
    await client.call("test_reconnection")


SCENARIOS: dict[str, Scenario] = {
    "initialize": only_list,
    "elicitation-sep1034-client-defaults": accept_the_defaults,
    "sse-retry": come_back,
    "tools_call": list_and_add,
    "request-metadata": walk,
    "sep-2322-client-request-state": answer_and_go_on,
    "http-standard-headers": visit_everything,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_what_is_left,
    "json-schema-ref-no-deref": only_list,
    "json-schema-2020-12-preservation": hand_back_a_schema,
}


def confirm(question: Elicitation) -> dict[str, Any]:
    """Accept with what the schema proposes, and say yes to the rest."""
    properties = (question.requested_schema or {}).get("properties", {})
    return {name: question.defaults.get(name, True) for name in properties}


async def main(url: str) -> None:
    scenario = SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]]
    revision = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    client = Client(
        url,
        era="modern" if revision >= "2026" else "legacy",
        on_elicit=confirm,
        on_sample=lambda question: "a sample",
        on_roots=["/"],
    )
    async with asyncio.timeout(DEADLINE), client:
        await scenario(client, context)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
