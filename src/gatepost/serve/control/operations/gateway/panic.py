"""The panic switch: everything ends, and nothing starts until it is off."""

from gatepost.core.clock import iso
from gatepost.flow.reports import PanicResult
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.gateway.panic import PanicAnswer, PanicOffArgs, PanicOnArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.rights.switches import PANIC, Switch

LONGEST_REASON = 500


@operation
async def turn_on(deps: OperationDeps, args: PanicOnArgs) -> PanicAnswer:
    """Acted upon in memory first, then written down: a store that cannot be written, or does not answer, keeps nothing
    alive, and it is said so."""
    reason, now = clean(args.reason).strip()[:LONGEST_REASON], deps.clock.now()

    def write(db: Db) -> bool:
        return switches.turn_on(db, PANIC, reason, deps.caller, now)

    async def turn() -> bool:
        return await deps.write(write, reason=reason)

    done = await deps.halt(turn) if deps.halt is not None else PanicResult(0, await turn(), "")
    unwritten = Switch(PANIC, reason, deps.caller, now)
    shown = unwritten if done.why else await deps.store.read(switches.get, PANIC)
    return PanicAnswer(
        changed=done.changed,
        ended=done.ended,
        on=shown is not None,
        reason=shown.reason if shown else "",
        since=iso(shown.since) if shown else None,
        durable=not done.why,
        why=done.why,
    )


@operation
async def turn_off(deps: OperationDeps, args: PanicOffArgs) -> PanicAnswer:
    changed = await deps.write(lambda db: switches.turn_off(db, PANIC))
    if deps.apply_switches is not None:
        await deps.apply_switches()
    return PanicAnswer(changed=changed)
