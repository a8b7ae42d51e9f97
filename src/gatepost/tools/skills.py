"""Skills: what a group has learnt, as files that its agent finds from its next turn on. A person agrees to each, and
sees what it changes."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import NotFound
from gatepost.flow.group_files import check_skill
from gatepost.flow.sessions.sandbox.sandbox_plan import SKILLS
from gatepost.flow.skills.agreements import agree_to_read, change_file
from gatepost.flow.skills.skill_card import ReadSkill
from gatepost.flow.skills.skill_files import MAIN, SkillTree, pack_tree, unpack_tree
from gatepost.messages.card import escape_markdown
from gatepost.messages.visible_text import render_changes
from gatepost.store.port import Db
from gatepost.store.rights.requests import BoundFact, BoundKind, BoundReads, Request
from gatepost.store.sessions import groups, skills
from gatepost.store.sessions.skills import SkillSource, shorten_digest
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool

Folder = Annotated[str | None, Meta(description="The group. Leave it out for your own.")]


class WrittenSkill(Struct, frozen=True):
    ok: bool
    path: str


async def preview_skill(call: ToolCall, arguments: Mapping[str, Any]) -> str:
    """Return what the call would change, as a block of markdown."""
    name, folder = str(arguments["name"]), arguments.get("folder") or call.caller.folder
    text = check_skill(name, str(arguments["content"]))
    _, agreed = await _load_agreed(call, folder, name)
    before = agreed.main_text if agreed is not None else ""
    lines = await call.in_thread(render_changes, before, text)
    head = f"{'Changes' if before else 'Adds'} the skill {name} of {escape_markdown(folder)}:"
    return "\n".join([head, "", "```", *(lines or ["(nothing changes)"]), "```"])


async def bind_skill(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
    """Return what is agreed under the name: the card shows how it changes, so another one is another question."""
    name, folder = str(arguments["name"]), arguments.get("folder") or call.caller.folder
    row = await call.read(skills.get, folder, name)
    digest, shown = (row.digest, f"agreed, {shorten_digest(row.digest)}") if row is not None else ("", "new")
    return BoundReads(facts=(BoundFact(BoundKind.SKILL, name, digest, shown),))


@tool(
    tier=Tier.WORLD,
    scoped_by="folder",
    group="groups",
    effects=(Subject.INSTRUCT,),
    held=True,
    preview=preview_skill,
    reads=bind_skill,
)
async def write_skill(
    call: ToolCall,
    name: Annotated[str, Meta(description="Lower-case letters, digits and hyphens, like weekly-report.")],
    content: Annotated[Body, Meta(description="The whole SKILL.md, with its name and description on top.")],
    folder: Folder = None,
) -> WrittenSkill:
    """Teach a group something: a skill that its agent has from its next turn on. A person must agree.

    For notes about work in hand use set_work; your own files you can write without this.
    """
    text, target = check_skill(name, content), folder or call.caller.folder
    if await call.read(groups.get, target) is None:
        raise NotFound("group", target, "use refresh_groups to see which there are")
    base, agreed = await _load_agreed(call, target, name)

    def make() -> tuple[ReadSkill, bytes]:
        skill = change_file(agreed, name, MAIN, text.encode(), SkillSource.AGENT, call.now, call.caller.folder)
        return skill, pack_tree(skill.tree)

    skill, pack = await call.in_thread(make)
    by = _name_approver(call.approved)
    await call.write(lambda db: agree_to_read(db, target, skill, pack, by, call.now, base=base))
    call.deps.events.group(target)
    return WrittenSkill(ok=True, path=f"{SKILLS}/{name}/{MAIN}")


async def _load_agreed(call: ToolCall, folder: str, name: str) -> tuple[str, SkillTree | None]:
    """Return what is agreed for the group itself, with its digest: of its other files nothing changes."""

    def read(db: Db) -> tuple[str, bytes | None]:
        row = skills.get(db, folder, name)
        return (row.digest, skills.get_pack(db, row.digest)) if row is not None else ("", None)

    digest, pack = await call.read(read)
    return digest, await call.in_thread(unpack_tree, pack) if pack is not None else None


def _name_approver(request: Request | None) -> str:
    """Return who let the call through: a person, or a rule that holds nothing."""
    return request.answered_by if request is not None and request.answered_by else "a rule"
