"""The panic switch: everything ends, and nothing starts until it is off."""

from typing import Any

from gatepost.core.clock import iso
from gatepost.flow.sessions.halting import Halt
from gatepost.messages.text import clean
from gatepost.serve.control.contract import OPERATOR, Args, Nothing, Office, operation, write_down
from gatepost.store import switches
from gatepost.store.port import Db
from gatepost.store.switches import PANIC, Switch

LONGEST_REASON = 500


class On(Args, frozen=True):
    reason: str = ""


@operation("panic.on", On)
async def turn_on(office: Office, args: On) -> dict[str, Any]:
    """Acted upon in memory first, then written down: a store that cannot be written, or does not answer, keeps nothing
    alive, and it is said so."""
    reason, now = clean(args.reason).strip()[:LONGEST_REASON], office.clock.now()

    def write(db: Db) -> bool:
        return switches.turn_on(db, PANIC, reason, OPERATOR, now)

    async def turn() -> bool:
        return await write_down(office, "panic.on", {"reason": reason}, write)

    done = await office.halt(turn) if office.halt is not None else Halt(0, await turn(), "")
    if done.why:
        shown = _as_shown(Switch(PANIC, reason, OPERATOR, now))
    else:
        shown = _as_shown(await office.store.read(switches.get, PANIC))
    return {"changed": done.changed, "ended": done.ended, **shown, "durable": not done.why, "why": done.why}


@operation("panic.off", Nothing)
async def turn_off(office: Office, args: Nothing) -> dict[str, Any]:
    changed = await write_down(office, "panic.off", {}, lambda db: switches.turn_off(db, PANIC))
    if office.obey is not None:
        await office.obey()
    return {"changed": changed, "ended": 0, **_as_shown(None), "durable": True, "why": ""}


def _as_shown(switch: Switch | None) -> dict[str, Any]:
    if switch is None:
        return {"on": False, "reason": "", "since": None}
    return {"on": True, "reason": switch.reason, "since": iso(switch.since)}
