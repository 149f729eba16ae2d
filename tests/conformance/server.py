"""The server that the official conformance suite calls, on the public API alone."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcpost import Context, Elicit, Mirror, Roots, Sample, Server, ToolError
from mcpost.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    TextContent,
    TextResourceContents,
)

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

server = Server("conformance", version="1.0.0", instructions="Fixtures of the conformance suite.")

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@server.tool
async def test_simple_text() -> str:
    """Give one text."""
    return "This is a simple text response for testing."


@server.tool
async def test_image_content() -> ImageContent:
    """Give one image."""
    return ImageContent(PIXEL, "image/png")


@server.tool
async def test_audio_content() -> AudioContent:
    """Give one sound."""
    return AudioContent(SILENCE, "audio/wav")


def embedded() -> EmbeddedResource:
    return EmbeddedResource(
        TextResourceContents("test://embedded-resource", "Embedded text.", mime_type="text/plain")
    )


@server.tool
async def test_embedded_resource() -> EmbeddedResource:
    """Give one embedded resource."""
    return embedded()


@server.tool
async def test_multiple_content_types() -> list[Any]:
    """Give text, an image and a resource."""
    return [TextContent("Several kinds."), ImageContent(PIXEL, "image/png"), embedded()]


@server.tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing.")


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Tell progress three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three times."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(text)
        await asyncio.sleep(0.05)
    return "logged"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Log, for whoever asked for it."""
    await ctx.info("a message")
    return "done"


@server.tool(
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Take what a schema of 2020-12 allows."""
    return f"got {sorted(arguments)}"


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the model."""
    answer = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.text}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the person."""
    schema = {
        "type": "object",
        "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
        "required": ["username", "email"],
    }
    answer = await ctx.elicit(message, schema)
    return f"User response: {answer.action} {answer.content}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a default of each kind."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {
                "type": "string",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": {"type": "boolean", "default": True},
        },
    }
    answer = await ctx.elicit("Please review and update the form fields", schema)
    return f"Elicitation completed: {answer.action} {answer.content}"


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with each form of a choice."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Value {n}"} for n in (1, 2, 3)]
    schema = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option 1", "Option 2", "Option 3"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    }
    answer = await ctx.elicit("Please choose", schema)
    return f"Elicitation completed: {answer.action} {answer.content}"


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Let the connection go before the result."""
    ctx.close_stream()
    await asyncio.sleep(0.2)
    return "Reconnected."


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Need sampling."""
    ctx.require({"sampling": {}})
    return "sampling is there"


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Ask a person."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {(answer.content or {}).get('name', 'stranger')}!"


def extra_tool() -> str:
    """Come and go."""
    return "here"


@server.tool
async def test_trigger_tool_change() -> str:
    """Change the list of tools."""
    server.add_tool(extra_tool, name="test_extra_tool")
    server.remove_tool("test_extra_tool")
    return "changed"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Change the list of prompts."""
    server.add_prompt(extra_tool, name="test_extra_prompt")
    server.remove_prompt("test_extra_prompt")
    return "changed"


@server.tool
async def test_x_mcp_header(region: Annotated[str | None, Mirror("Region")] = None) -> str:
    """Take a mirrored parameter."""
    return f"region {region}"


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {(answer.content or {}).get('name', 'stranger')}!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the model."""
    answer = await ctx.sample(
        "What is the capital of France?", max_tokens=100, key="capital_question"
    )
    return answer.text or "answered"


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    roots = await ctx.roots(key="client_roots")
    return f"{len(roots)} roots"


OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}}


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask, and keep a state."""
    answer = await ctx.elicit("Is that right?", OK, key="confirm")
    return f"state-ok {answer.action}"


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask, and keep a state that nobody may change."""
    answer = await ctx.elicit("Is that right?", OK, key="confirm")
    return f"state-ok {answer.action}"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask three things at once."""
    answers = await ctx.ask(
        {
            "user_name": Elicit("What is your name?", NAME),
            "greeting": Sample("Write a greeting.", max_tokens=50),
            "client_roots": Roots(),
        }
    )
    return f"{answers['user_name'].action}, {answers['greeting'].text}, {len(answers)} answers"


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, one after the other."""
    first = await ctx.elicit("Step 1: what is your name?", NAME, key="step1")
    color = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    second = await ctx.elicit("Step 2: which color?", color, key="step2")
    return f"{first.action} and {second.action}"


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask what the client can answer."""
    if "elicitation" in ctx.client_capabilities:
        await ctx.elicit("What is your name?", NAME, key="user_name")
    else:
        await ctx.sample("Say something.", max_tokens=20, key="word")
    return "answered"


@server.resource("test://static-text", name="static-text", mime_type="text/plain")
async def static_text() -> str:
    """Give a text that does not change."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", mime_type="image/png")
async def static_binary() -> BlobResourceContents:
    """Give bytes that do not change."""
    return BlobResourceContents("test://static-binary", PIXEL, mime_type="image/png")


@server.resource("test://template/{id}/data", name="template", mime_type="application/json")
async def template_data(id: str) -> dict[str, str]:
    """Give the data of one id."""
    return {"id": id, "templateTest": "true", "data": f"Data for ID: {id}"}


@server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """Give a text that one can subscribe to."""
    return "Watched."


@server.prompt
async def test_simple_prompt() -> str:
    """Say something simple."""
    return "This is a simple prompt for testing."


@server.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Say something with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg1")
async def complete_arg1(value: str) -> list[str]:
    """Complete the first argument."""
    return [word for word in ("paris", "park", "party") if word.startswith(value)]


@server.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:
    """Say something with a resource."""
    resource = TextResourceContents(resourceUri, "Embedded text.", mime_type="text/plain")
    return [
        PromptMessage("user", EmbeddedResource(resource)),
        PromptMessage("user", TextContent("Please process the embedded resource above.")),
    ]


@server.prompt
async def test_prompt_with_image() -> list[PromptMessage]:
    """Say something with an image."""
    return [
        PromptMessage("user", ImageContent(PIXEL, "image/png")),
        PromptMessage("user", TextContent("Please analyze the image above.")),
    ]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Ask before saying something."""
    schema = {
        "type": "object",
        "properties": {"context": {"type": "string"}},
        "required": ["context"],
    }
    answer = await ctx.elicit("What is it about?", schema, key="user_context")
    return f"It is about {(answer.content or {}).get('context', 'nothing')}."
