"""The tools that the conformance suite of MCP calls by name: a plug-in in the home that `make conformance` makes."""

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from gatepost.access.tiers import Tier
from gatepost.core.errors import GatepostError
from gatepost.core.records import replace
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import TOOLS, ForwardedResult, Tool, ToolListing, tool

# One pixel, and a sound without a sample.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
RESOURCE = {
    "uri": "test://embedded-resource",
    "mimeType": "text/plain",
    "text": "This is an embedded resource content.",
}


@tool(tier=Tier.WORKER, group="conformance", effects=())
async def a_tool_without_arguments(call: ToolCall) -> str:
    """The first of the list, which the suite calls with nothing to see whether its headers are accepted."""
    return "called"


@tool(tier=Tier.WORKER, group="conformance", effects=())
async def test_simple_text(call: ToolCall) -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@tool(tier=Tier.WORKER, group="conformance", effects=())
async def test_error_handling(call: ToolCall) -> str:
    """Fail."""
    raise GatepostError("This tool intentionally returns an error for testing")


@tool(tier=Tier.WORKER, group="conformance", effects=())
async def test_tool_with_progress(call: ToolCall) -> str:
    """Tell of its progress three times."""
    for done in (0, 50, 100):
        call.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@tool(tier=Tier.WORKER, group="conformance", effects=())
async def test_streaming_elicitation(call: ToolCall) -> str:
    """Tell of its progress, and ask the client nothing."""
    call.progress(1, 1, "")
    return "nothing was asked"


@tool(tier=Tier.WORKER, group="conformance", effects=())
async def test_logging_tool(call: ToolCall) -> str:
    """Say nothing to the client's log."""
    return "nothing was logged"


@tool(tier=Tier.WORKER, group="conformance", effects=())
async def test_trigger_tool_change(call: ToolCall) -> str:
    """Tell everybody that the tools have changed."""
    call.deps.events.tools(None)
    return "told"


@tool(tier=Tier.WORKER, group="conformance", effects=())
async def test_header(
    call: ToolCall, region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]
) -> str:
    """Take an argument that is also a header."""
    return region


def give(name: str, *content: dict[str, Any], schema: dict[str, Any] | None = None) -> None:
    """A tool whose answer is more than a text: such tools come from connectors, which have no function of ours."""

    async def run(call: ToolCall, /, **arguments: Any) -> ForwardedResult:
        return ForwardedResult(list(content))

    plain: Tool = TOOLS["test_simple_text"]
    listed = {**plain.listed, "name": name, "description": f"Answer with {name}."}
    if schema is not None:
        listed["inputSchema"] = schema
    listing = ToolListing(lambda: listed, own=False)
    TOOLS.add(name, replace(plain, name=name, run=run, listing=listing, structured=True), origin=__name__)


give("test_image_content", IMAGE)
give("test_audio_content", {"type": "audio", "data": WAV, "mimeType": "audio/wav"})
give("test_embedded_resource", {"type": "resource", "resource": RESOURCE})
give(
    "test_multiple_content_types",
    {"type": "text", "text": "Multiple content types test:"},
    IMAGE,
    {"type": "resource", "resource": {**RESOURCE, "uri": "test://mixed-content-resource"}},
)
give(
    "json_schema_2020_12_tool",
    {"type": "text", "text": "ok"},
    schema={
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
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
