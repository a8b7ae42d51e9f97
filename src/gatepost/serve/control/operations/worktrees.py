"""Managed worktrees, for the command line."""

from pathlib import Path
from typing import Any

import msgspec

from gatepost.flow.worktrees.worktrees import NewWorktree
from gatepost.serve.agents.agent_spec import check_path
from gatepost.serve.agents.service import FOLDER, AgentService
from gatepost.serve.agents.worktrees import bundle_commands, make_worktree_view
from gatepost.serve.control.contract import OPERATOR, OperationArgs, OperationDeps, operation
from gatepost.serve.control.operations.agents import get_agent_service
from gatepost.store.worktrees import Worktree


class CreateWorktreeArgs(OperationArgs, frozen=True):
    source: str
    name: str = ""
    base: str = ""
    branch: str = ""
    pr: int = 0
    folder: str = ""


class WorktreeArgs(OperationArgs, frozen=True):
    name: str


class ShowWorktreeArgs(WorktreeArgs, frozen=True):
    archived: bool = False


class ListWorktreesArgs(OperationArgs, frozen=True):
    archived: bool = False


class ArchiveWorktreeArgs(OperationArgs, frozen=True):
    name: str
    discard: bool = False


def _worktree_to_json(service: AgentService, each: Worktree) -> dict[str, Any]:
    """As it stands, with the ways to what was saved of it."""
    fetch, look = bundle_commands(each, service.worktrees.bundle(each))
    told: dict[str, Any] = msgspec.to_builtins(make_worktree_view(service, each))
    return {**told, "fetch": fetch, "look": look}


@operation("worktree.create", CreateWorktreeArgs)
async def create(office: OperationDeps, args: CreateWorktreeArgs) -> Any:
    service = get_agent_service(office)
    wanted = NewWorktree(
        source=check_path(args.source),
        folder=args.folder or office.config[FOLDER],
        name=args.name,
        base=args.base,
        branch=args.branch,
        pr=args.pr,
    )
    return _worktree_to_json(service, await service.create_worktree(wanted, OPERATOR))


@operation("worktree.list", ListWorktreesArgs)
async def list_worktrees(office: OperationDeps, args: ListWorktreesArgs) -> Any:
    service = get_agent_service(office)
    return [_worktree_to_json(service, each) for each in await service.worktrees.every(archived=args.archived)]


@operation("worktree.show", ShowWorktreeArgs)
async def show(office: OperationDeps, args: ShowWorktreeArgs) -> Any:
    service = get_agent_service(office)
    return _worktree_to_json(service, await service.worktrees.find(args.name, archived=args.archived))


@operation("worktree.trust", WorktreeArgs)
async def trust(office: OperationDeps, args: WorktreeArgs) -> Any:
    service = get_agent_service(office)
    return _worktree_to_json(service, await service.worktrees.trust(args.name, OPERATOR))


@operation("worktree.setup", WorktreeArgs)
async def set_up(office: OperationDeps, args: WorktreeArgs) -> Any:
    service = get_agent_service(office)
    found = await service.worktrees.find(args.name)
    return _worktree_to_json(service, await service.worktrees.set_up(found, OPERATOR))


@operation("worktree.save", WorktreeArgs)
async def save(office: OperationDeps, args: WorktreeArgs) -> dict[str, Any]:
    found, saved = await get_agent_service(office).worktrees.save(args.name, OPERATOR)
    more = {"branch": found.branch, "state": found.state, "left": saved.left}
    return {**_bundle_to_json(found, saved.bundle, saved.contents), **more}


@operation("worktree.archive", ArchiveWorktreeArgs)
async def archive(office: OperationDeps, args: ArchiveWorktreeArgs) -> dict[str, Any]:
    done = await get_agent_service(office).archive_worktree(args.name, OPERATOR, discard=args.discard)
    return {**_bundle_to_json(done.worktree, done.saved, done.contents), "trouble": done.trouble}


def _bundle_to_json(each: Worktree, bundle: Path | None, contents: str) -> dict[str, Any]:
    fetch, look = bundle_commands(each, bundle)
    told = str(bundle) if bundle else None
    return {"name": each.name, "bundle": told, "contents": contents, "fetch": fetch, "look": look}
