"""One event of a visitor's room as their page gets it. They are a stranger: no folder, no reason and no file is
told."""

from typing import Any

from gatepost.messages.inbound import Direction
from gatepost.serve.room_events import RoomEvent
from gatepost.store.link_visitors import LinkVisitor

FAILED = frozenset({"failed", "refused", "cancelled"})
WAITING = frozenset({"accepted", "queued", "working", "retry", "held"})


def render_visitor_event(seen: RoomEvent, html: str, visitor: LinkVisitor) -> dict[str, Any]:
    incoming = seen.direction == Direction.IN
    return {
        "id": seen.id,
        "mine": incoming and seen.sender == visitor.identity,
        "verb": seen.verb,
        "notice": not seen.folder and seen.sender.startswith("gatepost:"),  # what the gateway says by itself
        "name": seen.agent,
        "html": html,
        "at": seen.at // 1000,
        "key": seen.platform_id,
        "target": seen.target_id,
        "state": "failed" if seen.state in FAILED else "waiting" if seen.state in WAITING else "",
        "files": [each.name for each in seen.files],
    }
