"""Finding the tools that a turn does not start with, and using one that is not in the client's list."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid
from gatepost.gate.tool_answers import fitting
from gatepost.gate.tool_search import ToolIndex, list_subjects, read_words
from gatepost.store.sessions import skills
from gatepost.tools.call import CatalogEntry, ToolCall
from gatepost.tools.contract import BODY, tool

READ_SKILL = "Of a skill, read NAME/SKILL.md in the folder of your skills before you use it."


class FoundTool(Struct, frozen=True):
    name: str
    description: str
    inputSchema: Mapping[str, Any]


class FoundSkill(Struct, frozen=True):
    name: str
    description: str


class FoundTools(Struct, frozen=True, omit_defaults=True):
    """`subjects`: names of tools by their subject, if nothing was asked for."""

    tools: list[FoundTool] = []
    skills: list[FoundSkill] = []
    subjects: dict[str, list[str]] = {}
    note: str = ""


@tool(tier=Tier.WORKER, group="finding", read_only=True, idempotent=True, core=True)
async def find_tools(
    call: ToolCall,
    query: Annotated[str, Meta(description="A few words, or a name. Empty: all subjects.", extra={BODY: True})] = "",
) -> FoundTools:
    """Find a skill, or a tool that your list lacks, such as editing, reacting, reading history, work for agents.

    Those tools join your list; call_tool uses them at once.
    """
    if call.catalog is None:
        return FoundTools(note="There are no tools here.")
    words = read_words(query)
    found = await call.in_thread(call.catalog.find, words) if words else []
    known = await _find_skills(call, words) if words else []
    if not found and not known:
        note = (
            "Nothing fits these words. These tools are there." if words else "Ask by a name, or by what it should do."
        )
        return FoundTools(subjects=list_subjects(call.catalog.list_entries()), note=note)
    shown, _ = fitting(FoundTool(each.name, each.description, each.schema) for each in found)
    hidden = {each.name for each in found if not each.core}
    if call.caller.offered is not None and hidden:
        await call.caller.offered.unlock([each.name for each in reversed(shown) if each.name in hidden])
    return FoundTools(tools=shown, skills=known, note=READ_SKILL if known else "")


async def _find_skills(call: ToolCall, words: Sequence[str]) -> list[FoundSkill]:
    """Return the skills of the caller that fit best: a prompt does not list all of them."""
    there = await call.read(skills.list_effective, call.caller.folder, call.caller.session_id or "")
    if not there:
        return []

    def find() -> list[CatalogEntry]:
        return ToolIndex([CatalogEntry(each.name, "skill", each.description, {}, False) for each in there]).find(words)

    return [FoundSkill(each.name, each.description) for each in await call.in_thread(find)]


@tool(tier=Tier.WORKER, group="finding", effects=(), core=True)
async def call_tool(
    call: ToolCall,
    name: Annotated[str, Meta(description="As find_tools shows it.")],
    arguments: Annotated[dict[str, Any] | None, Meta(description="As its schema says.", extra={BODY: True})] = None,
) -> str:
    """Use a tool that is not in your list."""
    raise Invalid("name", "call_tool cannot use itself; name another tool")  # the gate has put the tool that is meant
