"""Egress: which hosts sandboxes may reach, and what they tried."""

from gatepost.core.errors import NotFound
from gatepost.egress import rules
from gatepost.serve.control.arguments.gateway.egress import (
    AllowHostArgs,
    DenyHostArgs,
    EgressLogArgs,
    EgressRuleArgs,
    ListEgressRulesArgs,
    RemoveEgressRuleArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.port import Db
from gatepost.store.rights import egress
from gatepost.store.rights.egress import EgressAttempt, EgressRule
from gatepost.store.sessions import groups


async def _add_rule(deps: OperationDeps, args: EgressRuleArgs, *, allow: bool) -> EgressRule:
    host, port = rules.read_pattern(args.host)
    now = deps.clock.now()

    def put(db: Db) -> EgressRule:
        if args.folder and groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        local = allow and rules.is_one_host(host, port)
        return egress.put(db, args.folder or None, host, port, allow=allow, local=local, by=deps.caller, now=now)

    return await deps.write(put, host=host, port=port)


@operation
async def allow(deps: OperationDeps, args: AllowHostArgs) -> EgressRule:
    return await _add_rule(deps, args, allow=True)


@operation
async def deny(deps: OperationDeps, args: DenyHostArgs) -> EgressRule:
    return await _add_rule(deps, args, allow=False)


@operation
async def remove(deps: OperationDeps, args: RemoveEgressRuleArgs) -> EgressRule:
    def delete(db: Db) -> EgressRule:
        gone = egress.remove(db, args.id)
        if gone is None:
            raise NotFound("egress rule", str(args.id), "`gatepost egress list` shows them")
        return gone

    return await deps.write(delete)


@read_operation
def list_rules(db: Db, args: ListEgressRulesArgs, now: int) -> list[EgressRule]:
    found = egress.list_rules(db)
    return rules.list_folder_rules(found, args.folder) if args.folder else found


@read_operation
def list_attempts(db: Db, args: EgressLogArgs, now: int) -> list[EgressAttempt]:
    return egress.list_attempts(db, args.limit, args.folder, "denied" if args.denied else "")[::-1]
