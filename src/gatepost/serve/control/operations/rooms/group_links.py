"""Names by which the agent of a group gives work to that of another one."""

import re

from gatepost.core.errors import Invalid, NotFound
from gatepost.serve.control.arguments.rooms.group_links import GroupLink, LinkGroupArgs, UnlinkGroupArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.messages import destinations
from gatepost.store.messages.destinations import DestinationKind
from gatepost.store.port import Db
from gatepost.store.sessions import groups

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")


def check_link_name(name: str) -> str:
    if not _NAME.match(name):
        raise Invalid("name", f"{name[:60]!r}: lower-case letters, digits and inner hyphens, at most 40")
    return name


@operation
async def link(deps: OperationDeps, args: LinkGroupArgs) -> GroupLink:
    now = deps.clock.now()
    check_link_name(args.name)

    def add(db: Db) -> None:
        for folder in (args.folder, args.group):
            if groups.get(db, folder) is None:
                raise NotFound("group", folder, "`gatepost group list` shows them")
        known = destinations.get(db, args.folder, args.name)
        if known is not None and known.kind is DestinationKind.ROOM:
            raise Invalid("name", f"{args.folder} calls the room {known.address} {args.name!r}; choose another")
        destinations.add_group(db, args.folder, args.name, args.group, now)

    await deps.write(add)
    return GroupLink(args.folder, args.name, args.group)


@operation
async def unlink(deps: OperationDeps, args: UnlinkGroupArgs) -> GroupLink:
    def remove(db: Db) -> str:
        known = destinations.get(db, args.folder, args.name)
        if known is None or known.kind is not DestinationKind.GROUP:
            raise NotFound("link", args.name, f"`gatepost group show {args.folder}` shows them")
        destinations.remove(db, args.folder, args.name)
        return known.target_folder

    return GroupLink(args.folder, args.name, await deps.write(remove))
