"""Managed worktrees, for the command line."""

from pathlib import Path
from typing import Any

from msgspec import structs

from gatepost.serve.agents.service import AgentService
from gatepost.serve.agents.worktrees import (
    bundle_commands,
    make_new_worktree,
    make_worktree_view,
)
from gatepost.serve.control.arguments.worktrees import (
    ArchiveWorktreeArgs,
    CreateWorktreeArgs,
    ListWorktreesArgs,
    SaveWorktreeArgs,
    SaveWorktreeResult,
    SetUpWorktreeArgs,
    ShowWorktreeArgs,
    TrustWorktreeArgs,
    WorktreeDetails,
    WorktreeRemoval,
)
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.serve.control.operations.agents import get_agent_service
from gatepost.store.sessions.worktrees import Worktree


def _make_details(service: AgentService, each: Worktree) -> WorktreeDetails:
    fetch, look = bundle_commands(each, service.worktrees.bundle(each))
    return WorktreeDetails(**structs.asdict(make_worktree_view(service, each)), fetch=fetch, look=look)


@operation
async def create(deps: OperationDeps, args: CreateWorktreeArgs) -> WorktreeDetails:
    service = get_agent_service(deps)
    new = make_new_worktree(args, deps.config)
    return _make_details(service, await service.create_worktree(new, deps.caller))


@operation
async def list_worktrees(deps: OperationDeps, args: ListWorktreesArgs) -> list[WorktreeDetails]:
    service = get_agent_service(deps)
    return [_make_details(service, each) for each in await service.worktrees.every(archived=args.archived)]


@operation
async def show(deps: OperationDeps, args: ShowWorktreeArgs) -> WorktreeDetails:
    service = get_agent_service(deps)
    return _make_details(service, await service.worktrees.find(args.name, archived=args.archived))


@operation
async def trust(deps: OperationDeps, args: TrustWorktreeArgs) -> WorktreeDetails:
    service = get_agent_service(deps)
    return _make_details(service, await service.worktrees.trust(args.name, deps.caller))


@operation
async def set_up(deps: OperationDeps, args: SetUpWorktreeArgs) -> WorktreeDetails:
    service = get_agent_service(deps)
    found = await service.worktrees.find(args.name)
    return _make_details(service, await service.worktrees.set_up(found, deps.caller))


@operation
async def save(deps: OperationDeps, args: SaveWorktreeArgs) -> SaveWorktreeResult:
    found, saved = await get_agent_service(deps).worktrees.save(args.name, deps.caller)
    return SaveWorktreeResult(
        **_bundle_fields(found, saved.bundle, saved.contents),
        branch=found.branch,
        state=found.state,
        left=saved.left,
    )


@operation
async def archive(deps: OperationDeps, args: ArchiveWorktreeArgs) -> WorktreeRemoval:
    done = await get_agent_service(deps).archive_worktree(args.name, deps.caller, discard=args.discard)
    return WorktreeRemoval(**_bundle_fields(done.worktree, done.saved, done.contents), trouble=done.trouble)


def _bundle_fields(each: Worktree, bundle: Path | None, contents: str) -> dict[str, Any]:
    fetch, look = bundle_commands(each, bundle)
    path = str(bundle) if bundle else None
    return {"name": each.name, "bundle": path, "contents": contents, "fetch": fetch, "look": look}
