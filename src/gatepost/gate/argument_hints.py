"""A hint for a model whose call did not fit: the fields that a tool takes, and what was probably meant. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from gatepost.tools.contract import Tool

LARGEST = 64 * 1024  # bytes of arguments that are looked into
LONGEST_NAME, MOST_UNKNOWN, MOST_FIELDS, MOST_VALUES = 60, 3, 40, 20
AT = re.compile(r"at `\$\.(\w+)")

_read_object = msgspec.json.Decoder(dict[str, Any]).decode


def suggest_arguments(tool: Tool, raw: bytes, error: str) -> str:
    schema = tool.listed["inputSchema"]
    properties: Mapping[str, Any] = schema.get("properties", {})
    required: Collection[str] = schema.get("required", ())
    hints = [_suggest_name(name, list(properties)) for name in _list_unknown(raw, properties)]
    if (found := AT.search(error)) is not None and (values := _list_values(schema, found[1])):
        hints.append(f"{found[1]} is one of {', '.join(values)}.")
    fields = [name if name in required else f"{name} (optional)" for name in list(properties)[:MOST_FIELDS]]
    hints.append(f"{tool.name} takes {', '.join(fields)}." if fields else f"{tool.name} takes no arguments.")
    return " ".join(hint for hint in hints if hint)


def _list_unknown(raw: bytes, properties: Collection[str]) -> list[str]:
    try:
        given = _read_object(raw) if len(raw) <= LARGEST else {}
    except (ValueError, RecursionError):
        return []
    return [name for name in given if name not in properties][:MOST_UNKNOWN]


def _suggest_name(name: str, known: Sequence[str]) -> str:
    by_letters = {each.replace("_", "").lower(): each for each in known}
    close = get_close_matches(name[:LONGEST_NAME].replace("_", "").lower(), by_letters, n=1)
    return f"`{name[:LONGEST_NAME]}`: did you mean {by_letters[close[0]]}?" if close else ""


def _list_values(schema: Mapping[str, Any], name: str) -> list[str]:
    field = schema.get("properties", {}).get(name, {})
    if "$ref" in field:
        field = schema.get("$defs", {}).get(field["$ref"].rsplit("/", 1)[-1], {})
    return [str(value) for value in field.get("enum", ())][:MOST_VALUES]
