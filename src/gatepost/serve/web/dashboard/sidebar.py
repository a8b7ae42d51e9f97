"""Parts beside every page: the way to the first steps while the demo answers, the panic switch, how many decisions are
waited for, and how many things are not well."""

from msgspec import Struct

from gatepost.core.settings import Config
from gatepost.flow.groups import WORLD
from gatepost.flow.sessions.sandbox.sandbox_plan import DEMO
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.serve.control.arguments.agents import AnswerRequestArgs
from gatepost.serve.control.arguments.alerts import ListAlertsArgs
from gatepost.serve.control.arguments.connect import RIGHT
from gatepost.serve.control.arguments.gateways import PanicOnArgs
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.serve.web.dashboard.view import Action, Tone
from gatepost.store.gateways import alerts
from gatepost.store.port import Db
from gatepost.store.rights import requests, switches
from gatepost.store.sessions import groups

MOST_WAITING = 99  # that are counted
PANIC_ON = Action(label="Stop everything", operation="panic.on", asks=True, tone=Tone.BAD)
PANIC_OFF = Action(label="Go on", operation="panic.off", tone=Tone.GOOD)


class Sidebar(Struct, frozen=True, kw_only=True):
    """`switch`: None for whoever may not turn it."""

    is_first_run: bool
    is_stopped: bool
    reason: str
    switch: Action | None
    waiting: int  # decisions, for whoever may make them everywhere
    alerts: int  # that are open and not muted, for whoever may see them


def read_sidebar(db: Db, config: Config, person: str, now: int) -> Sidebar:
    stopped = switches.get(db, switches.PANIC)
    may = has_right(db, person, f"op:{PanicOnArgs.info.right}", ROOT_FOLDER)
    return Sidebar(
        is_first_run=is_first_run(db, config, person),
        is_stopped=stopped is not None,
        reason=stopped.reason if stopped is not None else "",
        switch=(PANIC_OFF if stopped is not None else PANIC_ON) if may else None,
        waiting=count_waiting(db, person),
        alerts=count_alerts(db, person, now),
    )


def count_alerts(db: Db, person: str, now: int) -> int:
    found = sum(not each.is_muted(now) for each in alerts.list_open(db))
    return found if found and has_right(db, person, f"op:{ListAlertsArgs.info.right}", ROOT_FOLDER) else 0


def count_waiting(db: Db, person: str) -> int:
    may = has_right(db, person, f"op:{AnswerRequestArgs.info.right}", ROOT_FOLDER)
    return requests.count_pending(db, MOST_WAITING) if may else 0


def is_first_run(db: Db, config: Config, person: str) -> bool:
    """Return True if the demo answers and this person may connect an agent. The chat links to the first steps, too."""
    return is_demo(db, config) and has_right(db, person, f"op:{RIGHT}", ROOT_FOLDER)


def is_demo(db: Db, config: Config) -> bool:
    """Return True if nothing but the demo answers in the first group."""
    group = groups.get(db, WORLD)
    return ((group.provider if group is not None else "") or config[PROVIDER]) == DEMO
