"""Pinned rules: add, list, remove. Agents that are awake take a change up after their turn."""

from gatepost.core.errors import Invalid, NotFound
from gatepost.messages import address as addresses
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.people.pinned_rules import (
    AddPinnedRuleArgs,
    ListPinnedRulesArgs,
    RemovePinnedRuleArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.port import Db
from gatepost.store.sessions import groups, pinned_rules
from gatepost.store.sessions.pinned_rules import PinnedRule

LONGEST_RULE = 2000  # characters
LONGEST_TOGETHER = 8000  # of one group: they are part of every turn


@operation
async def add(deps: OperationDeps, args: AddPinnedRuleArgs) -> PinnedRule:
    text = clean(args.text).strip()
    if not text or len(text) > LONGEST_RULE:
        raise Invalid("text", f"a pinned rule has 1 to {LONGEST_RULE} characters; longer texts belong in AGENTS.md")
    room = str(addresses.parse(args.room, "room")) if args.room else ""
    now = deps.clock.now()

    def insert(db: Db) -> PinnedRule:
        if groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        known = sum(len(each.text) for each in pinned_rules.list_for_group(db, args.folder))
        if known + len(text) > LONGEST_TOGETHER:
            why = f"the pinned rules of a group have {LONGEST_TOGETHER} characters together; remove one first"
            raise Invalid("text", why)
        return pinned_rules.add(db, args.folder, room, text, deps.caller, now)

    made = await deps.write(insert)
    deps.events.group(args.folder)
    return made


@read_operation
def list_rules(db: Db, args: ListPinnedRulesArgs, now: int) -> list[PinnedRule]:
    if args.folder and groups.get(db, args.folder) is None:
        raise NotFound("group", args.folder[:200], "`gatepost group list` shows them")
    return pinned_rules.list_for_group(db, args.folder) if args.folder else pinned_rules.list_all(db)


@operation
async def remove(deps: OperationDeps, args: RemovePinnedRuleArgs) -> PinnedRule:
    def delete(db: Db) -> PinnedRule:
        found = pinned_rules.get(db, args.id)
        if found is None or found.folder != args.folder:
            raise NotFound("pinned rule", str(args.id), f"`gatepost rule list --folder {args.folder}` shows them")
        pinned_rules.remove(db, found.id)
        return found

    gone = await deps.write(delete)
    deps.events.group(args.folder)
    return gone
