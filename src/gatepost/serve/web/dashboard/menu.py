"""The menu: six entries beside the chat, each with the pages of its section as tabs."""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.serve.web.dashboard.contract import Page, Section
from gatepost.serve.web.dashboard.view import Tab


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
