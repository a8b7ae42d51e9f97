"""Skills: what a group has learnt, as files that its agent finds from its next turn on. A person agrees to each, and
sees what it changes."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.flow.gateways.folder_check import check_here, claim_here
from gatepost.flow.group_files import LARGEST_SKILL, check_skill
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.messages.card import escape_markdown
from gatepost.messages.visible_text import render_changes
from gatepost.store.sessions import groups
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
    await check_here(call.deps.store, call.deps.home, folder)
    before = await call.in_thread(_read_skill, call.deps.home, folder, name)
    lines = await call.in_thread(render_changes, before, text)
    head = f"{'Changes' if before else 'Adds'} skills/{name}/SKILL.md of {escape_markdown(folder)}:"
    return "\n".join([head, "", "```", *(lines or ["(nothing changes)"]), "```"])


@tool(
    tier=Tier.WORLD, scoped_by="folder", group="groups", effects=(Subject.INSTRUCT,), held=True, preview=preview_skill
)
async def write_skill(
    call: ToolCall,
    name: Annotated[str, Meta(description="Lower-case letters, digits and hyphens, like weekly-report.")],
    content: Annotated[Body, Meta(description="The whole SKILL.md, with its name and description on top.")],
    folder: Folder = None,
) -> WrittenSkill:
    """Teach a group something: a skill that its agent finds under skills/ from its next turn on. A person must agree.

    For notes about work in hand use set_work; your own files you can write without this.
    """
    text, target = check_skill(name, content), folder or call.caller.folder
    if await call.read(groups.get, target) is None:
        raise NotFound("group", target, "use refresh_groups to see which there are")
    deps = call.deps
    await claim_here(deps.store, deps.home, target, call.now)
    uid = await group_uid(deps.store, deps.config, deps.clock, target)
    await call.run_audited(partial(_write_skill, call, target, name, text, uid))
    return WrittenSkill(ok=True, path=f"skills/{name}/SKILL.md")


def _write_skill(call: ToolCall, folder: str, name: str, text: str, uid: int | None) -> None:
    with open_untrusted(call.deps.home.groups) as root:
        for place in (f"{folder}/skills", f"{folder}/skills/{name}"):
            if not root.exists(place):
                root.make_dir(place, 0o700, uid=uid)
        root.write_bytes(f"{folder}/skills/{name}/SKILL.md", text.encode(), mode=0o600, uid=uid)


def _read_skill(home: Home, folder: str, name: str) -> str:
    """As it stands; '' if there is none, or what is there is no plain file."""
    try:
        with open_untrusted(home.groups) as root:
            return root.read_bytes(f"{folder}/skills/{name}/SKILL.md", 4 * LARGEST_SKILL).decode("utf-8", "replace")
    except (NotFound, Invalid):
        return ""
