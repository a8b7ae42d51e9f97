"""Work that an agent gives to another agent: down the tree, up, or to one that it knows. Each call returns at once; the
result comes later as a message, to the conversation that gave the work out. It begins a turn that answers in the room
of the call, so these tools speak there."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import ROOT_FOLDER, Tier, TreeScope, may_act_on
from gatepost.core.errors import Invalid, Refused
from gatepost.flow.errands import ErrandOrder, give_errand, make_attachments
from gatepost.flow.intake.attachments import remove_attachments
from gatepost.messages.text import clean
from gatepost.store.messages import destinations
from gatepost.store.messages.destinations import DestinationKind
from gatepost.store.port import Db, inline_read
from gatepost.store.rights.requests import BoundReads
from gatepost.store.sessions import errands
from gatepost.store.sessions.errands import Errand, ErrandState
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool
from gatepost.tools.kit import outgoing_files

LONGEST = 100_000
MOST_FILES = 20
NOTE = "Its result comes to you as a message with this id. You need not wait: end your turn, or go on with other work."
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")

Prompt = Annotated[Body, Meta(description="What is to be done, with all that the other agent must know for it.")]
Room = Annotated[str | None, Meta(description="Taken for older callers. The result returns to this conversation.")]
Paths = Annotated[list[str], Meta(max_length=MOST_FILES)]
Depth = Annotated[int | None, Meta(description="Taken for older callers. The gateway counts.")]


class GivenErrand(Struct, frozen=True, omit_defaults=True):
    """`errand`: its id, which its result carries. `parent`: who got it, if it went up."""

    queued: bool
    errand: str
    state: ErrandState
    group: str
    note: str
    parent: str | None = None


@tool(
    tier=Tier.WORLD,
    scoped_by="group",
    within=TreeScope.BELOW,
    group="groups",
    effects=(Subject.INSTRUCT, Subject.SPEAK),
    here=True,
)
async def delegate_group(
    call: ToolCall,
    group: Annotated[str, Meta(description="The group below you that shall do it, like acme/eng.")],
    prompt: Prompt,
    chatJid: Room = None,
    depth: Depth = None,
) -> GivenErrand:
    """Give work to the agent of a group below yours. It does it with its own files and rights; no person sees it.

    Returns at once; the result comes later as a message to you, and you answer whoever asked. For your parent use
    escalate_group, for files or a group elsewhere send_to_agent.
    """
    return _render(await _give(call, ErrandOrder(folder=group, text=_check_text("prompt", prompt))))


@tool(tier=Tier.AGENT, group="groups", effects=(Subject.INSTRUCT, Subject.SPEAK), here=True, not_root=True)
async def escalate_group(call: ToolCall, prompt: Prompt, chatJid: Room = None, depth: Depth = None) -> GivenErrand:
    """Ask the agent of the group above yours: what exceeds your rights or your knowledge, or needs its decision.

    Returns at once; the result comes later as a message to you, and you answer whoever asked. For groups below you
    use delegate_group.
    """
    parent = find_parent(call.caller.folder)
    given = await _give(call, ErrandOrder(folder=parent, text=_check_text("prompt", prompt)))
    return _render(given, parent)


async def _read_files(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
    return await outgoing_files.freeze_files(call, arguments.get("files") or (), "files")


@tool(
    tier=Tier.AGENT,
    group="groups",
    effects=(Subject.INSTRUCT, Subject.HAND_OUT, Subject.SPEAK),
    here=True,
    reads=_read_files,
)
async def send_to_agent(
    call: ToolCall,
    group: Annotated[str, Meta(description="One of your names for agents, or a group: you, below you, or above.")],
    text: Prompt,
    session: Annotated[
        str | None, Meta(description="A name for a conversation of its own with that agent, like invoices.")
    ] = None,
    files: Annotated[Paths | None, Meta(description="Files to go along, named as for send_file.")] = None,
) -> GivenErrand:
    """Write to another agent, with files if you like; it goes on in the same conversation, unless that rested for long.

    Returns at once; what it answers comes later as a message to you. People are written to with send.
    """
    if session is not None and not _NAME.match(session):
        raise Invalid("session", f"{session[:60]!r}: lower-case letters, digits and inner hyphens, at most 40")
    said = _check_text("text", text)
    target = await call.read(find_target, call.caller.folder, group)
    if target is None:
        known = ", ".join(await call.read(list_names, call.caller.folder)) or "none"
        why = f"it is not below or above you, nor one of your names for agents ({known}). The operator can give you one"
        raise Refused(call.caller.folder, call.tool, group[:80], f"{why}: `gatepost group link`")
    if may_act_on(TreeScope.BELOW, call.caller.folder, target) and not call.allows(target):
        raise Refused(call.caller.folder, call.tool, target, "a rule of this gateway forbids it")
    order = ErrandOrder(folder=target, text=said, name=session or "")
    if not files or await call.read(errands.find_by_call, call.key) is not None:
        return _render(await _give(call, order))
    media = call.deps.home.media
    async with outgoing_files.copy_files(call, files, "files") as copies:
        kept = await call.in_thread(make_attachments, media, copies)
        try:
            return _render(await _give(call, ErrandOrder(folder=target, text=said, name=order.name, files=kept)))
        except (Refused, Invalid):
            await call.in_thread(remove_attachments, media, kept)
            raise


def find_parent(folder: str) -> str:
    """The group above one; root is above every world."""
    return folder.rpartition("/")[0] or ROOT_FOLDER


@inline_read
def find_target(db: Db, own: str, named: str) -> str | None:
    """The group that is meant, if it is within reach: the row of a name is also the permission."""
    known = destinations.get(db, own, named)
    if known is not None and known.kind == DestinationKind.GROUP:
        return known.target_folder
    above = own != ROOT_FOLDER and named == find_parent(own)
    return named if above or may_act_on(TreeScope.SUBTREE, own, named) else None


@inline_read
def list_names(db: Db, own: str) -> list[str]:
    """Return what a group calls others."""
    return [each.name for each in destinations.list_for_group(db, own) if each.kind == DestinationKind.GROUP]


def _check_text(field: str, text: str) -> str:
    said = clean(text)
    if not said.strip() or len(said) > LONGEST:
        raise Invalid(field, f"is empty or longer than {LONGEST} characters; what is longer goes along as a file")
    return said


async def _give(call: ToolCall, order: ErrandOrder) -> Errand:
    given = await call.write(give_errand, call, order)
    call.deps.events.session(given.session_id)
    return given


def _render(given: Errand, parent: str | None = None) -> GivenErrand:
    return GivenErrand(True, given.id, given.state, given.folder, NOTE, parent)
