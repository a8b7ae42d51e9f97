"""Egress: which hosts sandboxes may reach."""

from typing import Any

from gatepost.core.errors import NotFound
from gatepost.egress import rules
from gatepost.serve.control.contract import OPERATOR, OperationArgs, OperationDeps, operation, run_audited, to_json
from gatepost.store import egress, groups
from gatepost.store.port import Db


class AddEgressRuleArgs(OperationArgs, frozen=True):
    host: str  # host, host:port, *.host or *
    folder: str = ""  # '': everybody


class EgressRuleIdArgs(OperationArgs, frozen=True):
    id: int


class ListEgressRulesArgs(OperationArgs, frozen=True):
    folder: str = ""


async def _add_rule(office: OperationDeps, args: AddEgressRuleArgs, *, allow: bool) -> dict[str, Any]:
    host, port = rules.read_pattern(args.host)
    now = office.clock.now()

    def put(db: Db) -> dict[str, Any]:
        if args.folder and groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        local = allow and rules.is_one_host(host, port)
        return to_json(egress.put(db, args.folder or None, host, port, allow=allow, local=local, by=OPERATOR, now=now))

    action = "egress.allow" if allow else "egress.deny"
    return await run_audited(office, action, {"host": host, "port": port, "folder": args.folder}, put)


@operation("egress.allow", AddEgressRuleArgs)
async def allow(office: OperationDeps, args: AddEgressRuleArgs) -> dict[str, Any]:
    return await _add_rule(office, args, allow=True)


@operation("egress.deny", AddEgressRuleArgs)
async def deny(office: OperationDeps, args: AddEgressRuleArgs) -> dict[str, Any]:
    return await _add_rule(office, args, allow=False)


@operation("egress.rm", EgressRuleIdArgs)
async def remove(office: OperationDeps, args: EgressRuleIdArgs) -> dict[str, Any]:
    def delete(db: Db) -> dict[str, Any]:
        gone = egress.remove(db, args.id)
        if gone is None:
            raise NotFound("egress rule", str(args.id), "`gatepost egress list` shows them")
        return to_json(gone)

    return await run_audited(office, "egress.rm", {"id": args.id}, delete)


@operation("egress.list", ListEgressRulesArgs)
async def list_rules(office: OperationDeps, args: ListEgressRulesArgs) -> list[dict[str, Any]]:
    found = await office.store.read(egress.list_rules)
    return [to_json(each) for each in (rules.list_folder_rules(found, args.folder) if args.folder else found)]
