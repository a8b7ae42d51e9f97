"""Managed worktrees, for the command line."""

from pathlib import Path
from typing import Any

import msgspec

from gatepost.flow.worktrees.worktrees import Wanted
from gatepost.serve.agents.service import FOLDER, Agents
from gatepost.serve.agents.wishes import check_path
from gatepost.serve.agents.worktrees import commands, shown
from gatepost.serve.control.contract import OPERATOR, Args, Office, operation
from gatepost.serve.control.operations.agents import service_of
from gatepost.store.worktrees import Worktree


class Create(Args, frozen=True):
    source: str
    name: str = ""
    base: str = ""
    branch: str = ""
    pr: int = 0
    folder: str = ""


class Named(Args, frozen=True):
    name: str


class Show(Named, frozen=True):
    archived: bool = False


class Listing(Args, frozen=True):
    archived: bool = False


class Archive(Args, frozen=True):
    name: str
    discard: bool = False


def _told(service: Agents, each: Worktree) -> dict[str, Any]:
    """As it stands, with the ways to what was saved of it."""
    fetch, look = commands(each, service.worktrees.bundle(each))
    told: dict[str, Any] = msgspec.to_builtins(shown(service, each))
    return {**told, "fetch": fetch, "look": look}


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
    return _told(service, await service.create_worktree(wanted, OPERATOR))


@operation("worktree.list", Listing)
async def every(office: Office, args: Listing) -> Any:
    service = service_of(office)
    return [_told(service, each) for each in await service.worktrees.every(archived=args.archived)]


@operation("worktree.show", Show)
async def show(office: Office, args: Show) -> Any:
    service = service_of(office)
    return _told(service, await service.worktrees.find(args.name, archived=args.archived))


@operation("worktree.trust", Named)
async def trust(office: Office, args: Named) -> Any:
    service = service_of(office)
    return _told(service, await service.worktrees.trust(args.name, OPERATOR))


@operation("worktree.setup", Named)
async def set_up(office: Office, args: Named) -> Any:
    service = service_of(office)
    found = await service.worktrees.find(args.name)
    return _told(service, await service.worktrees.set_up(found, OPERATOR))


@operation("worktree.save", Named)
async def save(office: Office, args: Named) -> dict[str, Any]:
    found, saved = await service_of(office).worktrees.save(args.name, OPERATOR)
    more = {"branch": found.branch, "state": found.state, "left": saved.left}
    return {**_bundled(found, saved.bundle, saved.contents), **more}


@operation("worktree.archive", Archive)
async def archive(office: Office, args: Archive) -> dict[str, Any]:
    done = await service_of(office).archive_worktree(args.name, OPERATOR, discard=args.discard)
    return {**_bundled(done.worktree, done.saved, done.contents), "trouble": done.trouble}


def _bundled(each: Worktree, bundle: Path | None, contents: str) -> dict[str, Any]:
    fetch, look = commands(each, bundle)
    told = str(bundle) if bundle else None
    return {"name": each.name, "bundle": told, "contents": contents, "fetch": fetch, "look": look}
