"""Tools as clients are told of them: whole, for operators and programs, and short, for sessions. There a model pays for
each word at every turn. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from gatepost.access.policy import GroupPolicy
from gatepost.gate.named_call import CALL_TOOL, FIND_TOOLS
from gatepost.tools.call import CatalogEntry
from gatepost.tools.contract import Tool

LARGE = 2**31  # a bound that no model comes near
LONGEST_SUBJECTS = 400  # characters of names of subjects in the description of find_tools


def render_listed_tool(tool: Tool, policy: GroupPolicy) -> dict[str, Any]:
    """As in tools/list."""
    spoken = policy.list_rules_for(tool.name, tool.effects)
    if not spoken:
        return tool.listed
    lines = "\n".join(spoken)
    return {**tool.listed, "description": f"{tool.description}\n\nRules of this gateway for it:\n{lines}"}


def render_short_tool(tool: Tool, policy: GroupPolicy, visible: Iterable[Tool]) -> dict[str, Any]:
    """As sessions get it. Models do not see the shape of results, which are text as well. find_tools names the subjects
    of what is hidden, because connectors have some that no description can know."""
    listed = render_listed_tool(tool, policy)
    shown = {"name": tool.name, "description": listed["description"], "inputSchema": shorten_schema(tool)}
    if tool.name == FIND_TOOLS:
        subjects = sorted({each.group for each in visible if not each.core})
        shown["description"] = f"{shown['description']} Subjects: {', '.join(subjects)[:LONGEST_SUBJECTS]}."
    hints = {name: hint for name, hint in listed.get("annotations", {}).items() if hint or name == "destructiveHint"}
    return {**shown, "annotations": hints} if hints else shown


def list_catalog(tools: Iterable[Tool], policy: GroupPolicy) -> list[CatalogEntry]:
    """Return what find_tools finds."""
    return [
        CatalogEntry(
            each.name, each.group, render_listed_tool(each, policy)["description"], shorten_schema(each), each.core
        )
        for each in tools
        if each.name not in (FIND_TOOLS, CALL_TOOL)
    ]


def shorten_schema(tool: Tool) -> Mapping[str, Any]:
    """Return the schema of a tool without what a model does not need: the gate checks a call by the whole one, and says
    what did not fit. A connector's is passed on as it is."""
    schema: dict[str, Any] = tool.listed["inputSchema"]
    if schema.get("additionalProperties") is not False:
        return schema
    named: dict[str, Any] = schema.get("$defs", {})
    words = {f"#/$defs/{name}": each for name, each in named.items() if "enum" in each}
    rest = {name: each for name, each in named.items() if "enum" not in each}
    short: dict[str, Any] = {
        "type": "object",
        "properties": {name: _shorten(field, words) for name, field in schema["properties"].items()},
    }
    more = {"required": schema.get("required"), "$defs": rest}
    return short | {name: value for name, value in more.items() if value}


def _shorten(field: Mapping[str, Any], words: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    default = field.get("default")
    unsaid = default is False or default in ("", [])
    short = {**words.get(field.get("$ref", ""), {}), **field}
    if field.get("$ref") in words:
        del short["$ref"]
    if "anyOf" in field:
        short["anyOf"] = [_shorten(each, words) for each in field["anyOf"]]
    return {
        name: value
        for name, value in short.items()
        if not (name == "default" and unsaid) and not (name == "maximum" and value >= LARGE)
    }
