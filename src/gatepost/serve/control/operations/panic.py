"""The panic switch: everything ends, and nothing starts until it is off."""

from typing import Any

from gatepost.core.clock import iso
from gatepost.core.errors import Unavailable
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
    """Durable first, then acted upon: who starts meanwhile finds it on. A store that cannot be written keeps nothing
    alive: it is acted upon in memory, and said so."""
    reason, now = clean(args.reason).strip()[:LONGEST_REASON], office.clock.now()

    def write(db: Db) -> bool:
        return switches.turn_on(db, PANIC, reason, OPERATOR, now)

    async def turn() -> bool:
        return await write_down(office, "panic.on", {"reason": reason}, write)

    try:
        changed = await turn()
    except Unavailable as error:
        if office.halt is None:
            raise
        ended, shown = await office.halt(turn), Switch(PANIC, reason, OPERATOR, now)
        return {"changed": True, "ended": ended, **_as_shown(shown), "durable": False, "why": str(error)}
    ended = await office.obey() if office.obey is not None else 0
    shown_now = _as_shown(await office.store.read(switches.get, PANIC))
    return {"changed": changed, "ended": ended, **shown_now, "durable": True, "why": ""}


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
