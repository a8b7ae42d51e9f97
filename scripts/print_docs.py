"""Prints the pages that come from code: `make docs`. With --check says which of them are not as they would be printed.

Everything is loaded from the package alone: no home's plug-ins, no home's values.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from gatepost import declared
from gatepost.access.tiers import Tier
from gatepost.cli.commands.settings import as_markdown
from gatepost.cli.program import gatepost as program
from gatepost.core.clock import SystemClock
from gatepost.store.migrate import migrate, printed_schema
from gatepost.tools.contract import TOOLS, Tool

DOCS = Path(__file__).resolve().parent.parent / "docs"


def schema() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gatepost.db")
        migrate(path, SystemClock())
        return printed_schema(path)


def tools() -> str:
    out = [
        "# Tools",
        "",
        "Printed from the declarations by `make docs`; do not edit. An agent reaches the world through these alone.",
        "*Down to tier* names the deepest place in the tree that has a tool by default; `gatepost tools --folder F`",
        "shows what the group F has. The text is what the model reads.",
    ]
    known = [TOOLS[name] for name in TOOLS]
    for subject in sorted({tool.group for tool in known}):
        out += ["", f"## {subject}"]
        for tool in known:
            if tool.group == subject:
                out += ["", *_tool(tool)]
    return "\n".join(out) + "\n"


def _tool(tool: Tool) -> list[str]:
    tier = f"{int(tool.tier)} ({Tier(tool.tier).name.lower()})"
    held = " · a person must agree to each call" if tool.held else " · costs money" if tool.spends else ""
    scopes = [each for each in (tool.scoped_by, *tool.also_scoped_by) if each]
    scope = f" · scoped by {' and '.join(f'`{each}`' for each in scopes)}" if scopes else ""
    out = [f"### {tool.name}", "", f"Down to tier {tier}{scope}{held}.", "", *tool.description.splitlines()]
    properties: dict[str, Any] = tool.listed["inputSchema"]["properties"]
    if properties:
        required = tool.listed["inputSchema"].get("required", [])
        out += ["", "| parameter | type | meaning |", "|---|---|---|"]
        out += [_parameter(name, facts, name in required) for name, facts in properties.items()]
    return out


def _parameter(name: str, facts: dict[str, Any], required: bool) -> str:
    kinds = facts.get("type") or " or ".join(str(each.get("type", "object")) for each in facts.get("anyOf", []))
    kind = ", ".join(map(str, facts["enum"])) if "enum" in facts else kinds
    meaning = str(facts.get("description", "")).replace("|", "\\|").replace("\n", " ")
    return f"| `{name}`{'' if required else ' (optional)'} | {kind} | {meaning} |"


def commands() -> str:
    out = ["# Commands", "", "Printed from the command line's own help by `make docs`; do not edit.", "", "```"]
    context = click.Context(program, info_name="gatepost", terminal_width=100, **program.context_settings)
    out += [program.get_help(context), "```"]
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        out += _command(command, click.Context(command, parent=context, info_name=name))
    return "\n".join(out) + "\n"


def _command(command: click.Command, context: click.Context) -> list[str]:
    out = ["", f"## {context.command_path}", "", "```", command.get_help(context), "```"]
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            out += _command(inner, click.Context(inner, parent=context, info_name=name))
    return out


EXAMPLE = re.compile(r"(<!-- (examples/\w+\.py) -->\n```python\n).*?(```\n)", re.DOTALL)


def extend() -> dict[str, str]:
    """The pages that show an example, with the example as it is."""

    def fill(found: re.Match[str]) -> str:
        return found[1] + (DOCS / "extend" / found[2]).read_text(encoding="utf-8") + found[3]

    texts = {path: path.read_text(encoding="utf-8") for path in sorted((DOCS / "extend").glob("*.md"))}
    return {f"extend/{path.name}": EXAMPLE.sub(fill, text) for path, text in texts.items() if EXAMPLE.search(text)}


def pages() -> dict[str, str]:
    declared.load_package()
    printed = {"settings.md": as_markdown(), "tools.md": tools(), "commands.md": commands(), "schema.sql": schema()}
    return printed | extend()


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/{name} {'is not as printed; `make docs` prints it anew' if check else 'printed'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
