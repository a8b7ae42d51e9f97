"""The streams that visitors of chat links hold open: one for each visitor, and a bounded number for each link."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.event_bus import EventBus
from gatepost.store.link_visitors import LinkVisitor

MOST = 200
MOST_OF_LINK = 50


class VisitorStreams:
    def __init__(self, hub: LocalChannel, bells: EventBus) -> None:
        self._hub = hub
        self._open: dict[str, tuple[object, LinkVisitor]] = {}  # by the visitor's id
        bells.on_operation(self._ring)  # a link may have been revoked

    def has_room(self, visitor: LinkVisitor) -> bool:
        if visitor.id in self._open:  # the new one takes its place
            return True
        links = Counter(each.token_id for _, each in self._open.values())
        return len(self._open) < MOST and links[visitor.token_id] < MOST_OF_LINK

    @contextmanager
    def open(self, visitor: LinkVisitor) -> Iterator[object]:
        """The stream's own mark: a later one of the same visitor ends it."""
        mine = object()
        self._open[visitor.id] = (mine, visitor)
        self._hub.ring(visitor.address)
        try:
            yield mine
        finally:
            if self.is_current(visitor, mine):
                del self._open[visitor.id]

    def is_current(self, visitor: LinkVisitor, mine: object) -> bool:
        known = self._open.get(visitor.id)
        return known is not None and known[0] is mine

    def _ring(self) -> None:
        for _, visitor in self._open.values():
            self._hub.ring(visitor.address)
