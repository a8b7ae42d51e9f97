"""Names of an agent and its work: the title of its session, and the branch of its worktree. The caller is known by its
socket or token; nobody names another."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid, NotFound, Unavailable
from gatepost.messages.text import one_line
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool

LONGEST_TITLE = 60


class SessionTitle(Struct, frozen=True):
    success: bool
    title: str


class BranchName(Struct, frozen=True):
    success: bool
    branch: str


@tool(tier=Tier.WORKER, group="self", effects=(), idempotent=True)
async def set_title(
    call: ToolCall, title: Annotated[str, Meta(description="What it is about, 1 to 60 characters.")]
) -> SessionTitle:
    """Give your session a title, once you know what it is about: people find it by that in lists.

    It names this session alone. To rename the branch you work on use set_branch.
    """
    session_id, text = _session(call), one_line(title)
    if not text:
        raise Invalid("NOT_ALLOWED", "a title must not be blank")
    if len(text) > LONGEST_TITLE:
        raise Invalid("title", f"must have 1 to {LONGEST_TITLE} characters, not {len(text)}")

    def change(db: Db) -> str:
        session = sessions.get(db, session_id)
        if session is None or session.closed_at is not None:
            raise NotFound("agent", session_id)
        sessions.set_title(db, session_id, text)
        return session.address

    address = await call.write(change)
    instance = address.partition(":")[0]
    call.deps.events.change(instance, address)
    return SessionTitle(True, text)


@tool(tier=Tier.WORKER, group="self", effects=())
async def set_branch(
    call: ToolCall, name: Annotated[str, Meta(description="a-z, 0-9, - and /; no hyphen at an end, none doubled.")]
) -> BranchName:
    """Name the branch of the worktree that you were given, once you know what the work is about. Once only.

    For any other branch, and for renaming again, use git yourself.
    """
    session_id = _session(call)
    if call.deps.worktrees is None:
        raise Unavailable("git", "no sandbox runs here")
    await call.note()
    return BranchName(True, await call.deps.worktrees.rename(session_id, name.strip()))


def _session(call: ToolCall) -> str:
    if call.caller.session_id is None:
        raise Invalid("NOT_ALLOWED", "only an agent in a session of its own has a title and a branch")
    return call.caller.session_id
