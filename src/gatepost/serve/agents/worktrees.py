"""Managed worktrees as tools of the management server. To trust a setup is a person's: `gatepost worktree trust`."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.flow.worktrees.new_worktree import NewWorktree
from gatepost.flow.worktrees.sandbox_jobs import fetch_command, log_command
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.agents.agent_spec import check_path
from gatepost.serve.agents.derived_tools import with_fields_of
from gatepost.serve.agents.service import FOLDER, AgentService
from gatepost.serve.control.arguments.worktrees import CreateWorktreeArgs, WorktreeView
from gatepost.store.sessions.worktrees import Worktree
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Tool, tool


class ListWorktreesResult(Struct, frozen=True):
    worktrees: list[WorktreeView]


class ArchiveWorktreeResult(Struct, frozen=True, rename="camel", kw_only=True):
    success: bool
    saved: str | None  # a bundle, for `git fetch`
    contents: str  # what is in it
    fetch: str  # the command that takes it into the repository, and the one that shows it then
    look: str
    trouble: str


def make_worktree_view(service: AgentService, each: Worktree) -> WorktreeView:
    return WorktreeView(
        name=each.name,
        worktree_path=str(service.worktrees.path(each)),
        source=each.source,
        folder=each.folder,
        branch_name=each.branch,
        base=each.base,
        base_commit=each.base_commit,
        state=each.state,
        setup=list(each.setup),
        teardown=list(each.teardown),
        setup_state=each.setup_state,
        setup_output=each.setup_output,
        bundle=str(bundle) if (bundle := service.worktrees.bundle(each)) else None,
        created_at=iso(each.created_at) or "",
        archived_at=iso(each.archived_at),
    )


def make_new_worktree(wanted: CreateWorktreeArgs, config: Config) -> NewWorktree:
    return NewWorktree(
        source=check_path(wanted.source),
        folder=wanted.folder or config[FOLDER],
        name=wanted.name,
        base=wanted.base,
        branch=wanted.branch,
        pr=wanted.pr,
    )


def bundle_commands(each: Worktree, bundle: Path | None) -> tuple[str, str]:
    """By which its bundle is fetched and looked at; '' if there is none."""
    return (fetch_command(bundle, each.slug), log_command(each.slug, each.base_commit)) if bundle else ("", "")


def add_worktree_tools(service: AgentService, made: Registry[Tool]) -> None:
    @tool(tier=Tier.ROOT, group="agents", registry=made, read_only=True, idempotent=True)
    async def list_worktrees(
        call: ToolCall, includeArchived: Annotated[bool, Meta(description="Those that were put away, too.")] = False
    ) -> ListWorktreesResult:
        """List managed worktrees, the newest first."""
        return ListWorktreesResult(
            [make_worktree_view(service, each) for each in await service.worktrees.every(archived=includeArchived)]
        )

    @tool(tier=Tier.ROOT, group="agents", registry=made, effects=())
    @with_fields_of(CreateWorktreeArgs)
    async def create_worktree(call: ToolCall, wanted: CreateWorktreeArgs) -> WorktreeView:
        """Make a worktree of a repository for agents to work in: give its path to create_agent as `cwd`.

        To make both at once use create_agent with worktreeName.
        """
        if not any((wanted.name, wanted.branch, wanted.pr)):
            raise Invalid("name", "say the name of a new branch, a branch that there is, or a pull request")
        new = make_new_worktree(wanted, call.deps.config)
        return make_worktree_view(service, await service.create_worktree(new, OPERATOR))

    @tool(tier=Tier.ROOT, group="agents", registry=made, destructive=True, effects=(Subject.ERASE,))
    async def archive_worktree(
        call: ToolCall,
        worktree: Annotated[str, Meta(description="Its name or path.")],
        discard: Annotated[bool, Meta(description="Throw away what was done in it, instead of saving it.")] = False,
    ) -> ArchiveWorktreeResult:
        """Put a worktree away, with the agents that work in it. Its changes are saved as a bundle first."""
        done = await service.archive_worktree(worktree, OPERATOR, discard=discard)
        fetch, look = bundle_commands(done.worktree, done.saved)
        return ArchiveWorktreeResult(
            success=True,
            saved=str(done.saved) if done.saved else None,
            contents=done.contents,
            fetch=fetch,
            look=look,
            trouble=done.trouble,
        )
