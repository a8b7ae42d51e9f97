"""Tickets for pages that are not public. Such a page has no origin, so browsers send no cookie with what it loads. A
ticket stands in its address instead: for one browser, one group, and as long as that browser is signed in.

The page itself can read its ticket. It opens nothing but the pages of the same group, which the same agent wrote.
"""

from collections import OrderedDict

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import HOUR

LASTS = 12 * HOUR
MOST = 1000  # the oldest make way
MARK = "~"  # no folder begins with it


class SiteTicket(Struct, frozen=True):
    """`browser`: the token of its cookie, by which the person is judged anew with each request."""

    text: str
    browser: str
    folder: str
    until: int


class SiteTickets:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._tickets: OrderedDict[str, SiteTicket] = OrderedDict()
        self._by_browser: dict[tuple[str, str], str] = {}

    def issue(self, browser: str, folder: str, now: int) -> SiteTicket:
        """The same one for the same browser and group, while it is fresh."""
        known = self._tickets.get(self._by_browser.get((browser, folder), ""))
        if known is not None and known.until - now > LASTS // 2:
            return known
        made = SiteTicket(ids.token(), browser, folder, now + LASTS)
        self._tickets[made.text] = made
        self._by_browser[browser, folder] = made.text
        while len(self._tickets) > self._most:
            self._remove(next(iter(self._tickets)))
        return made

    def find(self, text: str, folder: str, now: int) -> SiteTicket | None:
        found = self._tickets.get(text)
        if found is not None and found.until <= now:
            self._remove(text)
            return None
        return found if found is not None and found.folder == folder else None

    def _remove(self, text: str) -> None:
        gone = self._tickets.pop(text)
        if self._by_browser.get((gone.browser, gone.folder)) == text:
            del self._by_browser[gone.browser, gone.folder]
