"""The panic switch: everything ends, and nothing starts until it is off."""

from typing import Any

from gatepost.core.clock import iso
from gatepost.flow.sessions.panic_result import PanicResult
from gatepost.messages.text import clean
from gatepost.serve.control.contract import OPERATOR, NoArgs, OperationArgs, OperationDeps, operation, run_audited
from gatepost.store import switches
from gatepost.store.port import Db
from gatepost.store.switches import PANIC, Switch

LONGEST_REASON = 500


class PanicOnArgs(OperationArgs, frozen=True):
    reason: str = ""


@operation("panic.on", PanicOnArgs)
async def turn_on(office: OperationDeps, args: PanicOnArgs) -> dict[str, Any]:
    """Acted upon in memory first, then written down: a store that cannot be written, or does not answer, keeps nothing
    alive, and it is said so."""
    reason, now = clean(args.reason).strip()[:LONGEST_REASON], office.clock.now()

    def write(db: Db) -> bool:
        return switches.turn_on(db, PANIC, reason, OPERATOR, now)

    async def turn() -> bool:
        return await run_audited(office, "panic.on", {"reason": reason}, write)

    done = await office.halt(turn) if office.halt is not None else PanicResult(0, await turn(), "")
    if done.why:
        shown = _switch_to_json(Switch(PANIC, reason, OPERATOR, now))
    else:
        shown = _switch_to_json(await office.store.read(switches.get, PANIC))
    return {"changed": done.changed, "ended": done.ended, **shown, "durable": not done.why, "why": done.why}


@operation("panic.off", NoArgs)
async def turn_off(office: OperationDeps, args: NoArgs) -> dict[str, Any]:
    changed = await run_audited(office, "panic.off", {}, lambda db: switches.turn_off(db, PANIC))
    if office.obey is not None:
        await office.obey()
    return {"changed": changed, "ended": 0, **_switch_to_json(None), "durable": True, "why": ""}


def _switch_to_json(switch: Switch | None) -> dict[str, Any]:
    if switch is None:
        return {"on": False, "reason": "", "since": None}
    return {"on": True, "reason": switch.reason, "since": iso(switch.since)}
