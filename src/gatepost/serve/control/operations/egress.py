"""Egress: which hosts sandboxes may reach."""

from typing import Any

from gatepost.core.errors import NotFound
from gatepost.egress import rules
from gatepost.serve.control.contract import OPERATOR, Args, Office, as_told, operation, write_down
from gatepost.store import egress, groups
from gatepost.store.port import Db


class Put(Args, frozen=True):
    host: str  # host, host:port, *.host or *
    folder: str = ""  # '': everybody


class Numbered(Args, frozen=True):
    id: int


class Of(Args, frozen=True):
    folder: str = ""


async def _put(office: Office, args: Put, *, allow: bool) -> dict[str, Any]:
    host, port = rules.read_pattern(args.host)
    now = office.clock.now()

    def put(db: Db) -> dict[str, Any]:
        if args.folder and groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        local = allow and rules.is_one_host(host, port)
        return as_told(egress.put(db, args.folder or None, host, port, allow=allow, local=local, by=OPERATOR, now=now))

    action = "egress.allow" if allow else "egress.deny"
    return await write_down(office, action, {"host": host, "port": port, "folder": args.folder}, put)


@operation("egress.allow", Put)
async def allow(office: Office, args: Put) -> dict[str, Any]:
    return await _put(office, args, allow=True)


@operation("egress.deny", Put)
async def deny(office: Office, args: Put) -> dict[str, Any]:
    return await _put(office, args, allow=False)


@operation("egress.rm", Numbered)
async def remove(office: Office, args: Numbered) -> dict[str, Any]:
    def delete(db: Db) -> dict[str, Any]:
        gone = egress.remove(db, args.id)
        if gone is None:
            raise NotFound("egress rule", str(args.id), "`gatepost egress list` shows them")
        return as_told(gone)

    return await write_down(office, "egress.rm", {"id": args.id}, delete)


@operation("egress.list", Of)
async def every(office: Office, args: Of) -> list[dict[str, Any]]:
    found = await office.store.read(egress.rules)
    return [as_told(each) for each in (rules.of_folder(found, args.folder) if args.folder else found)]
