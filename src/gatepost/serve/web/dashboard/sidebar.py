"""Parts beside every page. The menu has six entries beside the chat, each with the pages of its section as tabs.

The others are the way to the first steps while the demo answers, the panic switch, how many decisions are waited for,
and how many things are not well.
"""

from collections.abc import Sequence

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
from gatepost.serve.web.dashboard.contract import Page, Section
from gatepost.serve.web.dashboard.view import Action, Tab, Tone
from gatepost.store.gateways import alerts
from gatepost.store.port import Db
from gatepost.store.rights import requests, switches
from gatepost.store.sessions import groups

MOST_WAITING = 99  # that are counted
PANIC_ON = Action(label="Stop everything", operation="panic.on", asks=True, tone=Tone.BAD)
PANIC_OFF = Action(label="Go on", operation="panic.off", tone=Tone.GOOD)


class MenuEntry(Struct, frozen=True, kw_only=True):
    """`waiting`: how many decisions somebody waits for there. `alerts`: how many things are not well."""

    label: str
    href: str
    is_current: bool
    waiting: int = 0
    alerts: int = 0


def make_menu(shown: Sequence[Page], page: Page | None, waiting: int, alerts: int = 0) -> list[MenuEntry]:
    """Return an entry for each section of which the person may see a page. `shown`: those pages, in their order."""
    first = {section: next((each for each in shown if each.section is section), None) for section in Section}
    return [
        MenuEntry(
            label=section,
            href=start.href,
            is_current=page is not None and page.section is section,
            waiting=waiting if section is Section.AGENTS else 0,
            alerts=alerts if section is Section.SYSTEM else 0,
        )
        for section, start in first.items()
        if start is not None
    ]


def make_tabs(shown: Sequence[Page], page: Page | None) -> tuple[Tab, ...]:
    """Return the tabs of a page that the menu leads to; none where there is only one, or for a page of one thing."""
    if page is None or not page.listed:
        return ()
    others = [each for each in shown if each.section is page.section]
    if len(others) < 2:
        return ()
    return tuple(Tab(label=each.title, href=each.href, is_current=each.path == page.path) for each in others)


def get_heading(shown: Sequence[Page], page: Page) -> str:
    """Return the heading of a page: where the menu leads, it is the menu's own word."""
    start = next((each for each in shown if each.section is page.section), None)
    return page.section.value if start is page else page.title


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
