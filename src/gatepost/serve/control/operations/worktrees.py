"""Managed worktrees, for the command line."""

from typing import Any

import msgspec

from gatepost.flow.worktrees.worktrees import Wanted
from gatepost.serve.agents.service import FOLDER
from gatepost.serve.agents.wishes import check_path
from gatepost.serve.agents.worktrees import shown
from gatepost.serve.control.contract import OPERATOR, Args, Office, operation
from gatepost.serve.control.operations.agents import service_of


class Create(Args, frozen=True):
    source: str
    name: str = ""
    base: str = ""
    branch: str = ""
    pr: int = 0
    folder: str = ""


class Named(Args, frozen=True):
    name: str


class Listing(Args, frozen=True):
    archived: bool = False


class Archive(Args, frozen=True):
    name: str
    discard: bool = False


@operation("worktree.create", Create)
async def create(office: Office, args: Create) -> Any:
    service = service_of(office)
    wanted = Wanted(
        source=check_path(args.source),
        folder=args.folder or office.config[FOLDER],
        name=args.name,
        base=args.base,
        branch=args.branch,
        pr=args.pr,
    )
    return msgspec.to_builtins(shown(service, await service.create_worktree(wanted, OPERATOR)))


@operation("worktree.list", Listing)
async def every(office: Office, args: Listing) -> Any:
    service = service_of(office)
    return [msgspec.to_builtins(shown(service, each)) for each in await service.worktrees.every(archived=args.archived)]


@operation("worktree.show", Named)
async def show(office: Office, args: Named) -> Any:
    service = service_of(office)
    return msgspec.to_builtins(shown(service, await service.worktrees.find(args.name)))


@operation("worktree.trust", Named)
async def trust(office: Office, args: Named) -> Any:
    service = service_of(office)
    return msgspec.to_builtins(shown(service, await service.worktrees.trust(args.name, OPERATOR)))


@operation("worktree.setup", Named)
async def set_up(office: Office, args: Named) -> Any:
    service = service_of(office)
    found = await service.worktrees.find(args.name)
    return msgspec.to_builtins(shown(service, await service.worktrees.set_up(found, OPERATOR)))


@operation("worktree.save", Named)
async def save(office: Office, args: Named) -> dict[str, Any]:
    found, saved = await service_of(office).worktrees.save(args.name, OPERATOR)
    bundle = str(saved.bundle) if saved.bundle else None
    return {"name": found.name, "branch": found.branch, "bundle": bundle, "left": saved.left}


@operation("worktree.archive", Archive)
async def archive(office: Office, args: Archive) -> dict[str, Any]:
    done = await service_of(office).archive_worktree(args.name, OPERATOR, discard=args.discard)
    return {
        "name": done.worktree.name,
        "bundle": str(done.saved) if done.saved else None,
        "trouble": done.trouble,
    }
